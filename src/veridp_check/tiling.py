"""Whether convex regions tile space: shown by their facets, in a number of steps that grows slowly.

Regions are open: points where given expressions are positive. They tile a convex part of space if no two overlap and
their closures cover it. To show that they cover it, it suffices that one of them is not empty, and that each of their
facets within the part is covered by the facets of regions on its other side. Suppose not: then a segment leads from
inside a region to a point that none covers. It can be chosen so that it meets one hyperplane at a time. Where it
leaves the last region, it crosses a facet of that region; but there another region begins. (Facets are regions on
their hyperplane, which one variable fewer describes, so the argument is repeated for them.)

That regions tile is never said wrongly. It may be said that it could not be shown, although they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from veridp_check.linear import LinearExpression, LinearRelation, LinearSystem, Plane, plane_of

MAX_FACETS = 20_000
Positive = Sequence[LinearExpression]  # expressions that are positive


def tile(part: Positive, regions: Sequence[Positive]) -> bool:
    """Whether the regions were shown to tile this part of space, except finitely many hyperplanes."""
    return _are_disjoint(part, regions) and _Cover().covers(part, regions)


def _are_disjoint(part: Positive, regions: Sequence[Positive]) -> bool:
    planes = [_planes(region) or {} for region in regions]
    for first, mine in enumerate(planes):
        for second in range(first):
            other = planes[second]
            opposite = any(key in other and _front(other[key]) != _front(value) for key, value in mine.items())
            if not opposite and _system([*part, *regions[first], *regions[second]]) is not None:
                return False
    return True


class _Cover:
    def __init__(self) -> None:
        self.facets = 0

    def covers(self, part: Positive, regions: Sequence[Positive]) -> bool:
        """Whether the closures of the regions were shown to cover the part."""
        space = _system(part)
        if space is None:
            return True
        known = []
        for region in regions:
            planes = _planes(region)
            if planes is None:
                continue
            # A condition that holds in the whole part bounds the region nowhere within it.
            bounding = {key: value for key, value in planes.items() if _can_be(space, value * Fraction(-1))}
            if not bounding:
                return True
            if _can_be(space, *bounding.values()):
                known.append(bounding)
        return bool(known) and all(
            self._facet_is_covered(part, known, region, key) for region in known for key in region
        )

    def _facet_is_covered(
        self,
        part: Positive,
        regions: Sequence[dict[Plane, LinearExpression]],
        region: dict[Plane, LinearExpression],
        key: Plane,
    ) -> bool:
        self.facets += 1
        if self.facets > MAX_FACETS:
            return False
        edge = region[key]
        rest = [value for other, value in region.items() if other != key]
        behind = [one for one in regions if key in one and _front(one[key]) != _front(edge)]
        facet = [on_plane(value, edge) for value in (*part, *rest)]
        others = [[on_plane(v, edge) for k, v in one.items() if k != key] for one in behind]
        return _asks_no_more(others, facet) or self.covers(facet, others)


def _asks_no_more(regions: Sequence[Positive], facet: Positive) -> bool:
    """Whether all that one of the regions asks is asked in the facet too, so that it covers the facet by itself."""
    mine = _planes(facet)
    if mine is None:
        return True  # nothing is left of the facet
    for planes in map(_planes, regions):
        if planes is not None and all(k in mine and _front(mine[k]) == _front(v) for k, v in planes.items()):
            return True
    return False


def on_plane(value: LinearExpression, plane: LinearExpression) -> LinearExpression:
    """The value where the plane's expression is 0, without the first variable of that."""
    name = min(plane.terms)
    return value - plane * (value.terms.get(name, Fraction(0)) / plane.terms[name])


def _planes(region: Positive) -> dict[Plane, LinearExpression] | None:
    """The conditions of the region by their hyperplanes; None where two exclude each other, or one can never hold."""
    found: dict[Plane, LinearExpression] = {}
    for value in region:
        if not value.terms:
            if value.constant <= 0:
                return None
            continue
        key = plane_of(value)
        if key in found and _front(found[key]) != _front(value):
            return None
        found[key] = value
    return found


def _front(value: LinearExpression) -> bool:
    """On which side of its hyperplane the value is positive."""
    return value.terms[min(value.terms)] > 0


def _system(values: Positive) -> LinearSystem | None:
    """The points where all values are positive; None where there are none."""
    system = LinearSystem()
    return system if all(system.assume(LinearRelation(value, ">")) for value in values) else None


def _can_be(space: LinearSystem, *values: LinearExpression) -> bool:
    """Whether these values are positive somewhere in the space."""
    system = space.copy()
    return all(system.assume(LinearRelation(value, ">")) for value in values)
