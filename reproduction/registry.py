"""All sources, in the order of the page, and the artefacts by name."""

from __future__ import annotations

from reproduction import basics, checkdp, dpest, finder, local_dp, sniper, statdp

SOURCES = (
    sniper.SOURCE,
    statdp.SOURCE,
    finder.SOURCE,
    dpest.SOURCE,
    checkdp.SOURCE,
    local_dp.SOURCE,
    basics.SOURCE,
)
ARTEFACTS = {artefact.name: artefact for source in SOURCES for artefact in source.artefacts}
