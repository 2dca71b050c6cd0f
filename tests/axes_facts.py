"""What rosettasciio says of the axes of real files: python tests/axes_facts.py writes the table.

The table is part of the repository, so that tests need no rosettasciio.
"""

from __future__ import annotations

import json
import logging
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

from real_files import manifest, real_data

TABLE = Path(__file__).parent / "expected" / "axes.json"

#: The readers of rosettasciio by the formats of the manifest.
READERS = {
    "APP5": "topspin",
    "BLO": "blockfile",
    "DM": "digitalmicrograph",
    "EMD": "emd",
    "EMPAD": "empad",
    "HSPY": "hspy",
    "MIB": "quantumdetector",
    "MRC": "mrc",
    "NXS": "nexus",
    "PRZ": "pantarhei",
    "SER": "tia",
    "TIFF": "tiff",
    "TVIPS": "tvips",
    "ZSPY": "zspy",
}


def signals(path: Path, reader: str) -> list[list[list[Any]]]:
    """For each signal of a file its axes: name, size, scale, offset, unit, is one of the scan."""
    found = []
    for signal in import_module(f"rsciio.{reader}").file_reader(str(path), lazy=True)[:4]:
        axes = [axis for axis in signal["axes"] if "scale" in axis]
        found.append([_plain(axis) for axis in axes])
    return found


def _plain(axis: dict[str, Any]) -> list[Any]:
    def number(name: str, otherwise: float) -> float:
        value = axis.get(name)
        return otherwise if value is None else float(value)

    name, unit = str(axis.get("name") or ""), str(axis.get("units") or "")
    scale, offset = number("scale", 1.0), number("offset", 0.0) + 0.0
    return [name, int(axis["size"]), scale, offset, unit, bool(axis.get("navigate"))]


def main() -> None:
    """Write the table."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    table = {}
    for entry in manifest():
        reader = READERS.get(entry["format"])
        if reader is None or (entry["format"] != "TIFF" and entry["file"].endswith(".tif")):
            continue
        try:
            table[entry["file"]] = signals(real_data() / entry["file"], reader)
        except Exception as error:  # it does not read all of them
            print(entry["file"], type(error).__name__)
    lines = [f" {json.dumps(name)}: {json.dumps(axes)}" for name, axes in table.items()]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
