"""Runs a UDF in all the ways that must not make a difference."""

from __future__ import annotations

from framefold.checking import rules
from framefold.checking.names import uncalled
from framefold.checking.report import Finding, UDFReport
from framefold.checking.sample import Sample
from framefold.checking.watch import first_run, watched_run
from framefold.common._integers import whole
from framefold.exceptions import ArgumentTypeError, MissingMergeError
from framefold.io.dataset.base import DataSet
from framefold.udf.base import UDF
from framefold.udf.native import as_udf

__all__ = ["check_udf"]


def check_udf(udf: UDF, dataset: DataSet, *, frames: int = 64) -> UDFReport:
    """Try whether a UDF keeps to the rules of the interface, and say in words what it breaks.

    Runs it about twenty times over the first positions of a scan: cut into other partitions and
    tiles, on threads and on worker processes, under a ROI, over the same values in another dtype,
    over changed values, with the object's attributes on workers, with wider integers as results,
    and watched. None of that may change what the results are of. Neither ``udf`` nor ``dataset``
    are changed.

    Parameters
    ----------
    udf
        Any, with its parameters. AUX data are cut as the data are.
    dataset
        Data that it is made for.
    frames
        About how many frames to run it over; fewer, if they are larger than 256 MiB together.

    Returns
    -------
    UDFReport
        True if no result is wrong; ``print`` shows it.

    Raises
    ------
    InvalidArgumentError
        If the scan has fewer than two positions, or there is no frame at one of the first.
    Exception
        What the UDF raises when it runs over all of these frames at once.
    """
    udf = as_udf(udf)
    if not isinstance(udf, UDF):
        hint = "; pass an instance, not the class" if isinstance(udf, type) else ""
        raise ArgumentTypeError(f"{udf!r} is not a UDF{hint}")
    if not isinstance(dataset, DataSet):
        raise ArgumentTypeError(
            f"dataset is {dataset!r}; use the result of Context.open or Context.load"
        )
    frames = whole("frames", frames, least=1)
    name = udf._shown_name
    sample = Sample(udf, dataset, frames)
    try:
        try:
            base, written = first_run(sample)
        except MissingMergeError as error:
            findings = [Finding("merge", True, str(error)), *uncalled(sample)]
            return UDFReport(name, str(sample), 1, tuple(findings))
        if findings := list(rules.repeats(sample, base)):
            # Nothing can be compared.
            return UDFReport(name, str(sample), sample.runs, (*findings, *written))
        compared = rules.copies, rules.each_frame_counts, rules.tiles, rules.partitions
        for rule in (*compared, rules.selections, rules.ranges):
            for finding in rule(sample, base):
                # A result that is wrong for one reason differs in other ways, too.
                if not finding.buffer or all(each.buffer != finding.buffer for each in findings):
                    findings.append(finding)
        findings += rules.dtypes(sample)
        findings += rules.executors(sample)
        seen, time = watched_run(sample)
        findings += written
        findings += seen
        findings += uncalled(sample)
        findings += rules.sizes(sample, base, dataset)
        findings.sort(key=lambda finding: not finding.wrong)
        return UDFReport(name, str(sample), sample.runs, tuple(findings), time)
    finally:
        sample.close()
