"""The evaluation: estimates and gains on real values, repeated and beside what theory says."""

from __future__ import annotations

from veridp.local.study.run import Figure, People, Study, StudyPoint, StudySettings, adult_ages, evaluate

__all__ = ["Figure", "People", "Study", "StudyPoint", "StudySettings", "adult_ages", "evaluate"]
