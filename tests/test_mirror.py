"""Tests mirror the source tree: a module's tests are found under its name, or in a suite that is named here."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src"
ENTRANCES = {"__init__", "__main__"}
HEADS = {"proof", "checker", "reader"}  # what a folder is for: its tests may have the name of the folder
# Modules that are tested together, by what they do together. A folder stands for all modules in it.
SUITES = {
    "accounting/test_account.py": "accounting/domination accounting/lattice accounting/mechanisms",
    "accounting/test_theorems.py": "accounting/norm_bound",
    "accounting/test_release.py": "accounting/tree",
    "adjacency/test_adjacency.py": "adjacency/base adjacency/differences adjacency/records",
    "audit/test_audit.py": "audit/explored audit/findings audit/many report/audit",
    "audit/test_black_box.py": "audit/sampled",
    "audit/test_pytest_plugin.py": "_veridp_pytest audit/check",
    "budget/test_child_process.py": "budget/worker",
    "catalogue/test_catalogue.py": "catalogue/alignment",
    "catalogue/test_sparse_vectors.py": "catalogue/svt catalogue/gap_svt",
    "cli/test_commands.py": "cli/audit cli/exact cli/options cli/output cli/prove",
    "cli/test_golden.py": "cli/account",
    "cli/test_local.py": "cli/local_attack cli/tables report/local",
    "cli/test_scan.py": "audit/draws",
    "audit/test_cache.py": "cli/cache",
    "collect/service/test_commands.py": "cli/collect cli/collect_audit collect/service/http_client",
    "collect/service/test_api.py": "collect/service/app collect/service/handlers collect/task",
    "collect/service/test_database.py": "collect/service/schema collect/service/migrations",
    "collect/service/test_fuzz.py": "collect/service/openapi",
    "collect/service/test_store.py": "collect/service/background",
    "engines/exact/test_certified.py": "engines/exact/exponential engines/exact/masses",
    "engines/exact/test_compare.py": "engines/exact/distribution engines/exact/functions engines/exact/space",
    "engines/exact/test_gaussian.py": "engines/exact/divergence",
    "engines/exact/test_loss.py": "engines/exact/entry_loss engines/exact/joint_loss engines/exact/tree",
    "engines/exact/test_measure.py": "engines/exact/elimination",
    "engines/exact/test_notions.py": "engines/exact/normal_bounds",
    "engines/exact/test_pieces.py": "engines/exact/curve",
    "engines/exact/test_worst.py": "engines/exact/candidates",
    "engines/finder/test_indicator.py": "engines/finder/problem",
    "engines/finder/test_search.py": "engines/finder/ascent engines/finder/restart engines/finder/result "
    "engines/finder/search_run",
    "engines/pipeline/test_compare.py": "engines/pipeline/aligned_runs engines/pipeline/alignment "
    "engines/pipeline/faults engines/pipeline/mixtures engines/pipeline/prices engines/pipeline/recording "
    "engines/pipeline/releases engines/pipeline/result engines/pipeline/tails engines/pipeline/tracked",
    "engines/pipeline/test_search.py": "engines/pipeline/data",
    "engines/prove/aggregates/test_grammar.py": "engines/prove/aggregates/proof engines/prove/aggregates/record_loops",
    "engines/prove/alignment/test_alignment.py": "engines/prove/explanation engines/prove/search "
    "engines/prove/alignment/shifts",
    "engines/prove/coupling/test_approximate.py": "veridp_check/coupling/approximate",
    "engines/prove/bounds/test_bounds.py": "engines/prove/cases engines/prove/events veridp_check/bounds/checker "
    "veridp_check/bounds/reader",
    "engines/prove/test_check.py": "engines/prove/target veridp_check/alignment/checker veridp_check/alignment/reader "
    "veridp_check/checker veridp_check/document veridp_check/noise veridp_check/shifts",
    "engines/prove/composition/test_composition.py": "engines/prove/alignment/common_shifts "
    "engines/prove/composition/noisy_steps",
    "engines/prove/coupling/test_coupling.py": "engines/prove/coupling/search",
    "engines/prove/test_coupling_certificate.py": "veridp_check/coupling/checker veridp_check/coupling/reader",
    "engines/prove/alignment/test_divergence.py": "engines/prove/alignment/corner_losses",
    "engines/prove/test_forgeries.py": "veridp_check/coupling/cases",
    "engines/prove/test_formulas.py": "veridp_check/polynomials",
    "engines/prove/induction/test_induction.py": "engines/prove/induction/loop engines/prove/induction/system",
    "engines/prove/test_induction_certificate.py": "veridp_check/induction/checker veridp_check/induction/reader",
    "engines/prove/test_maps.py": "engines/prove/regions",
    "engines/prove/composition/test_norm_clipping.py": "engines/prove/aggregates/vectors",
    "engines/prove/composition/test_sampled_rounds.py": "kernel/flow/releases kernel/flow/rounds "
    "veridp_check/composition/rounds veridp_check/losses/sampled",
    "engines/prove/alignment/test_weights.py": "engines/prove/alignment/weight_slope veridp_check/weights",
    "engines/sniper/test_search.py": "engines/sniper/pair_attack engines/sniper/pairs engines/sniper/result",
    "engines/statdp/test_candidates.py": "engines/statdp/features engines/statdp/select",
    "engines/statdp/test_detect.py": "engines/statdp/result",
    "kernel/handmade/test_coin_chance.py": "kernel/handmade/coin_text",
    "kernel/handmade/test_coins.py": "kernel/handmade/discrete_laplace",
    "kernel/test_explore.py": "kernel/generator kernel/path kernel/run kernel/site",
    "kernel/test_functions.py": "kernel/expressions",
    "kernel/test_identity.py": "kernel/output kernel/returned",
    "kernel/test_noise.py": "kernel/distributions kernel/noise",
    "kernel/test_numpy_semantics.py": "kernel/stand_ins",
    "kernel/replay/test_agreement.py": "kernel/replay/scripted kernel/replay/valued_run",
    "kernel/state/test_memory.py": "kernel/state/contents kernel/state/fingerprint",
    "local/test_formulas.py": "local/frequency local/hashing local/kernels local/means local/piecewise",
    "local/test_oracle.py": "local/attributes local/plan",
    "local/test_poisoning.py": "local/poisoning",
    "local/test_study.py": "local/conclusions",
    "mechanism/test_adapters.py": "mechanism/adapters/diffprivlib_objects mechanism/adapters/opendp_measurements",
    "mechanism/test_library_adapters.py": "mechanism/adapters/aggregations mechanism/adapters/foreign "
    "mechanism/adapters/training",
    "mechanism/test_optional_libraries.py": "mechanism/adapters/tumult_measurements mechanism/adapters/tumult_program",
    "mechanism/test_randomness.py": "mechanism/older_interfaces mechanism/sources",
    "mechanism/test_worst_pairs.py": "mechanism/adapters/worst_pairs",
    "numerics/test_linear.py": "numerics/simplex",
    "report/test_page.py": "report/exhibits",
    "sampling/test_batch.py": "sampling/batch_number sampling/tape",
    "sampling/test_checked.py": "sampling/checked_arithmetic",
    "sampling/test_outputs.py": "sampling/encode",
    "sampling/test_sample.py": "sampling/blocks",
    "sampling/test_worker_pool.py": "sampling/worker_processes",
    "test_claim.py": "errors verdict",
    "test_notions.py": "tradeoff",
    "test_project.py": "report/baseline",
    "test_result.py": "presentation report/notebook",
    "veridp_check/alignment/test_divergence.py": "veridp_check/losses/distribution",
}
NAMED = {module for modules in SUITES.values() for module in modules.split()}
MODULES = sorted(
    file.relative_to(SOURCE).with_suffix("").as_posix().removeprefix("veridp/")
    for file in SOURCE.rglob("*.py")
    if file.stem not in ENTRANCES
)


def has_tests_of_its_name(module: str) -> bool:
    """The checker is tested with the proofs that it checks too."""
    *folder, name = module.split("/")
    folders = [folder, ["engines", "prove"]] if folder[:1] == ["veridp_check"] else [folder]
    names = [name, folder[-1]] if name in HEADS else [name]
    return any(TESTS.joinpath(*each, f"test_{one}.py").is_file() for each in folders for one in names)


def is_named(module: str) -> bool:
    parts = module.split("/")
    return any("/".join(parts[:length]) in NAMED for length in range(1, len(parts) + 1))


def test_every_module_has_tests_of_its_name_or_a_suite() -> None:
    """Remedy: write the tests of a module named here, or enter it in the suite that holds it to values."""
    assert [module for module in MODULES if not has_tests_of_its_name(module) and not is_named(module)] == []


@pytest.mark.parametrize("suite", SUITES)
def test_suites_exist_and_name_what_there_is(suite: str) -> None:
    assert (TESTS / suite).is_file()
    for module in SUITES[suite].split():
        assert module in MODULES or any(other.startswith(f"{module}/") for other in MODULES), module
        assert module not in MODULES or not has_tests_of_its_name(module), module


def test_no_module_is_named_twice() -> None:
    assert sum(len(modules.split()) for modules in SUITES.values()) == len(NAMED)
