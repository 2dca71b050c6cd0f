"""What a process holds and does, as Linux tells it from outside; nothing elsewhere."""

from __future__ import annotations

import select
import time
from pathlib import Path
from typing import Any

from engines import Worker

#: How often the peak is looked for, in seconds.
INTERVAL = 0.001


def resident(pid: int, kind: str) -> int | None:
    """Bytes that are resident: ``RssAnon`` of its own, or ``RssFile`` mapped from files."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith(kind + ":"):
            return int(line.split()[1]) * 1024
    return None


def settle(pid: int) -> None:
    """Wait until a process is idle: threads of some libraries spin on after their work is done."""
    before = cpu_ticks(pid)
    for _ in range(20):
        time.sleep(0.015)
        after = cpu_ticks(pid)
        if after == before:
            return
        before = after


def cpu_ticks(pid: int) -> int | None:
    """How long a process has computed, in the system's units."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[11]) + int(fields[12])


def watched_answer(worker: Worker, path: str | None) -> dict[str, Any]:
    """Let a worker compute an answer, and watch its memory from outside meanwhile."""
    pid = worker.process.pid
    file_before = resident(pid, "RssFile")
    peak = resident(pid, "RssAnon")
    worker.tell("answer", path=path)
    if peak is None or file_before is None:
        worker.hear()
        return {}
    while not select.select([worker.process.stdout], [], [], INTERVAL)[0]:
        peak = max(peak, resident(pid, "RssAnon") or 0)
    worker.hear()
    file_after = resident(pid, "RssFile") or file_before
    return {"peak_anon_bytes": peak, "mapped_bytes": file_after - file_before}
