"""What a check of a UDF found."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import fill

from framefold.exceptions import UDFError


@dataclass(frozen=True)
class Finding:
    """One thing that a check found.

    Attributes
    ----------
    rule : str
        The rule that is broken, in a word: ``repeat``, ``copies``, ``frames``, ``tiles``,
        ``partitions``, ``merge``, ``roi``, ``range``, ``dtype``, ``executors``, ``returns``,
        ``uncalled``, ``state``, ``in place`` or ``size``.
    wrong : bool
        Whether results are wrong, or there are none; False for what only costs time or memory.
    message : str
        What was seen, and what to do.
    buffer : str
        The name of the result that is concerned; empty for all.
    """

    rule: str
    wrong: bool
    message: str
    buffer: str = ""


@dataclass(frozen=True)
class UDFReport:
    """What :func:`framefold.check_udf` found; true if no result is wrong.

    Attributes
    ----------
    udf : str
        The name of its class, or that of a compiled function.
    sample : str
        What it ran over.
    runs : int
        How often it ran.
    findings : tuple of Finding
        What is wrong first.
    time : str
        What the time of a run goes into; empty where that was not measured.
    """

    udf: str
    sample: str
    runs: int
    findings: tuple[Finding, ...]
    time: str = ""

    def __bool__(self) -> bool:
        return not any(finding.wrong for finding in self.findings)

    def raise_if_wrong(self) -> None:
        """Raise what is wrong, for tests.

        Raises
        ------
        UDFError
            If a result is wrong; with all of the report.
        """
        if not self:
            raise UDFError(str(self))

    def __str__(self) -> str:
        wrong = sum(finding.wrong for finding in self.findings)
        verdict = f"{wrong} wrong" if wrong else "nothing wrong"
        lines = [f"{self.udf}: {verdict}, in {self.runs} runs over {self.sample}"]
        for finding in self.findings:
            kind = "wrong" if finding.wrong else "costs"
            lines.append(
                fill(
                    finding.message,
                    width=100,
                    initial_indent=f"  {kind} ({finding.rule}): ",
                    subsequent_indent="      ",
                    break_long_words=False,
                    break_on_hyphens=False,
                )
            )
        if self.time:
            lines.append(f"  {self.time}")
        return "\n".join(lines)
