"""Names that have no value yet are an error in compiled code, as they are in the interpreter.

Numba takes any number for them. This module imports Numba.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numba
from numba.core import ir
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.compiler_machinery import register_pass
from numba.core.untyped_passes import ReconstructSSA

from framefold.compilation._lowering import ONLY_LINKED
from framefold.compilation._readonly import put

UNASSIGNED = "a name has no value yet: give it one before the loop, or in all branches"
#: Where a comprehension keeps the value of a name that it uses, too, if there is one.
KEPT = "load_fast_and_clear"


@numba.njit(**ONLY_LINKED)  # type: ignore[untyped-decorator]
def assigned(yes: Any) -> None:
    """Refuse what has not been assigned."""
    if not yes:
        raise UnboundLocalError(UNASSIGNED)


@register_pass(mutates_CFG=False, analysis_only=False)
class CheckAssigned(ReconstructSSA):  # type: ignore[misc]
    """Gives each variable one assignment, as Numba does, and checks those that may have had none.

    For each of these, a variable says whether there was one.
    """

    _name = "framefold_check_assigned"

    def run_pass(self, state: Any) -> bool:
        """Add the checks, then do the rest."""
        blocks = state.func_ir.blocks
        unassigned = list(_unassigned(blocks))
        if unassigned:
            self._check(state.func_ir, unassigned)
        return bool(super().run_pass(state))

    def _check(self, function: Any, unassigned: list[tuple[Any, str]]) -> None:
        first = function.blocks[min(function.blocks)]
        flags = {
            name: first.scope.redefine(f"{name}.assigned", first.loc) for _, name in unassigned
        }
        for block in function.blocks.values():
            body: list[Any] = []
            if block is first:
                body += (
                    ir.Assign(ir.Const(False, each.loc), each, each.loc) for each in flags.values()
                )
            for statement in block.body:
                loc = statement.loc
                new = partial(put, function, block.scope, body, loc)
                for user, name in unassigned:
                    if user is statement:
                        check = new(ir.Global("assigned", assigned, loc))
                        new(ir.Expr.call(check, (flags[name],), (), loc))
                body.append(statement)
                flag = flags.get(_target(statement))
                if flag is not None:
                    body.append(ir.Assign(ir.Const(True, loc), flag, loc))
            block.body = body


def _unassigned(blocks: dict[int, Any]) -> Iterator[tuple[Any, str]]:
    """Statements that use what may have had no assignment, and its name."""
    graph = compute_cfg_from_blocks(blocks)
    names = {_target(each) for block in blocks.values() for each in block.body} - {""}
    made = {label: {_target(each) for each in block.body} for label, block in blocks.items()}
    first = min(blocks)
    before = {label: set() if label == first else names for label in blocks}
    changed = True
    while changed:
        changed = False
        for label in blocks.keys() - {first}:
            ways = [before[each] | made[each] for each, _ in graph.predecessors(label)]
            found = names.intersection(*ways)
            changed = changed or found != before[label]
            before[label] = found
    for label, block in blocks.items():
        known = before[label]
        for statement in block.body:
            for name in _used(statement) & names - known:
                yield statement, name
            known = known | {_target(statement)}


def _target(statement: Any) -> str:
    """The name that a statement assigns to, if it is one of the user's; else nothing."""
    name = str(statement.target.name) if isinstance(statement, ir.Assign) else ""
    return "" if name.startswith("$") else name


def _used(statement: Any) -> set[str]:
    """The names that a statement uses."""
    if isinstance(statement, ir.Del):
        return set()
    if not isinstance(statement, ir.Assign):
        return {each.name for each in statement.list_vars()}
    value, target = statement.value, statement.target.name
    if isinstance(value, ir.Var):
        return {value.name} - {target} if KEPT not in target else set()
    return {each.name for each in value.list_vars()} if isinstance(value, ir.Inst) else set()
