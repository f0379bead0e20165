#!/usr/bin/env python3
"""Reduce a file of accelerator records to device/catalogue.tsv.

    scripts/reduce_gpu_records.py RECORDS.jsonl > device/catalogue.tsv

Tab-separated lines, a card followed by its readings and MIG slices, in the
order of the records:

    card     id vendor name label_gb label_source arch compute_capability
             compute_capability_source form_factor missing
    reading  kind platform low high counter source
    slice    profile low high source

low and high are bytes: the interval of the printed number's rounding. An
unknown field is empty. Quotes, bandwidths and derived bounds are left out:
bounds are computed from the readings where they are needed.
"""

import json
import math
import sys

MIB = 1 << 20


def interval(entry):
    """The bytes that a printed number can stand for, or nothing at all."""
    if entry.get("bytes_if_exact") is not None:
        return [entry["bytes_if_exact"]] * 2
    if entry.get("mib") is None:
        return None, None
    rounding = entry.get("mib_plus_minus") or 0.5
    low = math.ceil((entry["mib"] - rounding) * MIB)
    high = math.floor((entry["mib"] + rounding) * MIB)
    return [low, high]


def row(*fields):
    """One line; an unknown field is empty."""
    texts = ["" if field is None else str(field) for field in fields]
    assert not any("\t" in text or "\n" in text for text in texts), texts
    print("\t".join(texts))


def reduce(record):
    row(
        "card", record["id"], record["vendor"], record["name_as_reported"],
        record["label_gb"], record["label_source"], record["arch"],
        record["compute_capability"], record.get("compute_capability_source"),
        record["form_factor"], record["missing"],
    )
    for entry in record["reported"]:
        low, high = interval(entry)
        source = entry["source_url"] or entry["source_ref"]
        row("reading", entry["kind"], entry["platform"], low, high, entry["counter"], source)
    for entry in record["mig"]:
        # A size in GiB is printed with two decimals; one in MiB is whole.
        rounding = 0.5 if entry["unit"] == "MiB" else 5.12
        low, high = interval({"mib": entry["mib"], "mib_plus_minus": rounding})
        row("slice", entry["profile"], low, high, entry["source_url"])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as records:
        for line in records:
            if line.strip():
                reduce(json.loads(line))


if __name__ == "__main__":
    main()
