// An estimate: the verdict in a sentence, what each rank needs, the phases, what the
// peak is made of, and what would make it fit.
import { element, words, paragraph, table, track, pieces, verdictWord } from "../dom.js";
import { figure, interval, withUnit, unitFor, unitName, count, bytes } from "../figures.js";
import { ranks } from "./ranks.js";
import { strip } from "./phases.js";
import { cards, shared, preparation, host } from "./cards.js";
import { parts } from "./parts.js";

export function estimate(record, actions = {}) {
  if (record.preparation) return preparation(record.preparation);
  if (record.shared) return shared(record.shared, verdict(record));
  if (!record.ranks.length) return [verdict(record)];
  const rank = limiting(record);
  return [verdict(record), capacity(record.capacity), trained(record.training), ranks(record), strip(record, rank, actions), terms(rank),
    advice(record, actions), ...(record.what_if || []).map(change), host(record.host), cards(record.cards, actions), parts(record.parts)];
}

// The most of something that fits, and the estimate there.
export function solve(record, actions) {
  const s = record.solution, unit = words(s.field);
  const open = s.open_value != null && s.open_value !== s.value ? ` Up to ${count(s.open_value)} nobody can exclude.` : "";
  const answer = s.value == null ? `no ${unit} is known to fit.` : `${s.smallest ? "the fewest" : "the largest"} ${unit} that fits: ${count(s.value)}.`;
  return [paragraph(answer + open, "verdict " + (s.value == null ? "cannot_tell" : "fits")), paragraph(s.limit_reason, "reason"),
    table("On each card", [{ title: "card" }, { title: unit, number: true }, { title: "why" }], (record.by_card || []).map(c => [c.name || c.id, count(c.value), c.limit_reason])),
    ...estimate(record, actions)];
}

function limiting(record) {
  return record.ranks.find(r => r.ranks.includes(record.verdict?.rank)) || record.ranks[0];
}

// The verdict in one sentence: which rank, which phase, which term, how much.
function verdict(record) {
  const v = record.verdict, model = record.model.name || "the model";
  const rank = record.ranks.length ? limiting(record) : null;
  if (!v && !rank?.peak) return paragraph(`${model}: ${record.model.weights_bytes == null ? "weights of unknown size" : bytes(record.model.weights_bytes) + " of weights"}`, "verdict none");
  if (!v) return paragraph(`${model} needs ${withUnit(figure(rank.peak, ""))} on each rank at its peak, in ${words(rank.peak.phase)}; no card was named.`, "verdict none");
  const headroom = figure(v, "headroom");
  const sentence = [`${verdictWord(v.value)}: on ${rank?.device?.name || "the card"}, rank ${v.rank} decides`, v.phase ? `in ${words(v.phase)}${v.step ? `, step ${v.step}` : ""}` : null, v.term ? `by its ${words(v.term)}` : null].filter(Boolean).join(", ") +
    `${headroom.low == null && headroom.high == null ? "" : `; headroom ${withUnit(headroom)}`}; ${v.basis}.`;
  return element("div", {}, paragraph(sentence, "verdict " + v.value), v.reasons.map(r => paragraph(r, "reason")));
}

// What an engine that fills its budget can hold.
function capacity(c) {
  if (!c) return null;
  const between = (n, low, high) => n != null ? count(n) : low != null ? `${count(low)} to ${count(high)}` : "—";
  const length = c.length ? ` of ${count(c.length)} positions` : "";
  return paragraph(`The cache holds ${between(c.tokens, c.tokens_low, c.tokens_high)} tokens, together ${between(c.sequences_at_length, c.sequences_low, c.sequences_high)} sequences${length}.`, "reason");
}

function trained(t) {
  if (!t) return null;
  const frozen = t.frozen_parameters ? ` beside ${count(t.frozen_parameters)} frozen ones` : "";
  return paragraph([`trains ${count(t.trainable_parameters)} parameters${frozen}`, t.optimizer, ...t.formats.map(f => `${words(f.tensor)} ${f.format}`), "checkpointing " + t.checkpointing,
    t.accumulation > 1 ? t.accumulation + " micro-batches a step" : null].filter(Boolean).join(" · "), "note");
}

const origins = ["calculated", "fitted", "observed", "assumed"], elsewhere = "not alive at the peak";

// The terms by how they are known, each with its interval at the peak. Hovering or
// opening one shows its rule, its source and its bytes.
function terms(rank) {
  const counted = rank.terms.filter(t => t.status !== "zero" && t.from_phase != null);
  const none = rank.terms.filter(t => t.status === "zero");
  const at = t => figure(t, "at_peak"), most = Math.max(1, ...counted.map(t => at(t).high ?? at(t).low ?? 0));
  const unit = unitFor(...counted.map(t => figure(t, "").high ?? figure(t, "").low));
  const there = t => !rank.peak || rank.peak.composition.some(c => c.term === t.id);
  const kind = t => !there(t) ? elsewhere : t.status === "unknown" ? "unknown" : t.origin;
  const rows = [...origins, "unknown", elsewhere].flatMap(origin => {
    const of = counted.filter(t => kind(t) === origin);
    return of.length ? [origin, ...of.map(t => [words(t.id), there(t) ? interval(at(t), unit) : "", there(t) ? track(0, most, pieces(at(t)), withUnit(at(t))) : "", interval(figure(t, ""), unit), known(t)])] : [];
  });
  return element("div", {}, table(`What the peak in ${words(rank.peak?.phase)} is made of, by how it is known, ${unitName(unit)}`,
    [{ title: "term" }, { title: "at the peak", number: true }, { title: "" }, { title: "at most, ever", number: true }, { title: "how it is known" }], rows),
  none.length ? paragraph("zero: " + none.map(t => `${words(t.id)} (${t.reason})`).join("; "), "note") : null);
}

function known(t) {
  const exact = figure(t, "at_peak");
  const inside = [t.rule && t.rule !== t.rule_short ? t.rule : null, exact.low == null ? null : `${count(exact.low)}${exact.high === exact.low ? "" : ` to ${count(exact.high)}`} bytes at the peak`, t.from_phase ? `alive from ${words(t.from_phase)} to ${words(t.to_phase)}` : null, t.source ? "source: " + t.source : null].filter(Boolean);
  const short = t.reason || t.rule_short || t.rule || words(t.category);
  return element("details", { title: inside.join("\n") }, element("summary", {}, short), element("ul", {}, inside.map(line => element("li", {}, line))));
}

// A switch may move more of the lower end than of the upper one.
const ordered = (a, b) => a == null || b == null ? { low: a, high: b } : { low: Math.min(a, b), high: Math.max(a, b) };

function advice(record, { apply }) {
  const a = record.advice;
  if (!a) return null;
  const useless = (a.cannot_reach || []).map(u => `${words(u.setting)} (${u.reason})`);
  const columns = [{ title: "setting" }, { title: "less", number: true }, { title: "then" }, { title: "costs" }, ...(apply ? [{ title: "" }] : [])];
  return element("div", {}, paragraph(a.reading ? "What would tell: " + a.reading : null, "reason"),
    table("What would make it fit: one change at a time, each estimated as a whole", columns,
      (a.options || []).map(o => [o.setting, withUnit(ordered(o.low_moved_bytes, o.high_moved_bytes)), then(o), [o.cost, o.check].filter(Boolean).join("; "),
        ...(apply ? [element("button", { type: "button", "aria-label": "Try " + o.setting, onclick: () => apply(o.setting) }, "Try")] : [])])),
    useless.length ? paragraph(`Cannot reach ${words(a.term)}: ${useless.join("; ")}`, "note") : null);
}

function then(o) {
  if (!o.verdict) return "—";
  const word = verdictWord(o.verdict.value).toLowerCase();
  return o.short_bytes ? `${word}, ${bytes(o.short_bytes)} short` : word;
}

// One thing changed: which terms of the peak move.
function change(c) {
  const unit = unitFor(...c.terms.map(t => figure(t, "before").high));
  return table(`With ${c.setting}${c.verdict ? ": " + verdictWord(c.verdict.value).toLowerCase() : ""}, at the peak of ${words(c.phase)}, ${unitName(unit)}`,
    [{ title: "term" }, { title: "before", number: true }, { title: "after", number: true }],
    c.terms.filter(t => t.moves).map(t => [words(t.term), interval(figure(t, "before"), unit), interval(figure(t, "after"), unit)]));
}
