// A replay: how exactly the simulation reproduces the recording, and what other
// settings would have reserved.
import { element, words, paragraph, table, track, pieces } from "../dom.js";
import { figure, bytes, count, withUnit } from "../figures.js";

export function replay(record) {
  return record.devices.flatMap(d => [element("h3", {}, "cuda:" + d.device), certificate(d.certificate), whatIf(d.what_if)]);
}

function certificate(c) {
  const holds = c.holds ? "The simulation reproduces the recording" : c.holds == null ? "Nothing was recorded" : "The simulation does not reproduce the recording";
  return element("div", {}, paragraph(`${holds}: ${count(c.addresses.matched)} of ${count(c.addresses.total)} addresses, ${count(c.segments.matched)} of ${count(c.segments.total)} segments, ${count(c.releases.matched)} of ${count(c.releases.total)} releases; reserved peak ${bytes(c.reserved_peak.recorded)}, replayed ${bytes(c.reserved_peak.replayed)}.`, "verdict " + (c.holds ? "fits" : "cannot_tell")),
    paragraph(c.refusal, "reason"), c.first_mismatch ? paragraph(`They part at entry ${count(c.first_mismatch.event)}, ${words(c.first_mismatch.action)}: ${c.first_mismatch.text}`, "note") : null);
}

function whatIf(list) {
  const of = w => figure(w, "peak_reserved"), most = Math.max(1, ...list.map(w => of(w).high ?? of(w).low ?? 0));
  return table("Under other settings, simulated", [{ title: "settings" }, { title: "reserved peak", number: true }, { title: "" }, { title: "out of memory" }, { title: "least that suffices", number: true }, { title: "on hardware" }],
    list.map(w => [w.recorded ? "as recorded" : w.settings || "the defaults", withUnit(of(w)), track(0, most, pieces(of(w)), withUnit(of(w))), w.out_of_memory == null ? "cannot tell" : w.out_of_memory ? "yes" : "no", bytes(w.smallest_capacity_bytes), w.recorded || w.validated_on_hardware ? "yes" : "not validated"]));
}
