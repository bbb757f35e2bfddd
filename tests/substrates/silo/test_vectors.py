"""The public instances, and what the checker does with bad ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.silo import check_vectors
from tests.substrates.golden import ALL, GOLDEN, SAMPLE
from waggle.core.errors import ConfigError
from waggle.substrates.silo.cases import Case, independent_case


def instance(case: Case, **extra: Any) -> dict[str, Any]:
    agents = [
        {"agent_id": i, "input_shard": shard, "expected_output": gold}
        for i, (shard, gold) in enumerate(zip(case.shards, case.golds, strict=True))
    ]
    metadata = {"num_agents": case.setting.n, "public_parameters": dict(case.setting.public)}
    return {"case_id": case.task.id, "metadata": metadata, "agent_configs": agents, **extra}


def write(folder: Path, name: str, data: Any) -> None:
    (folder / name).write_text(json.dumps(data))


def test_all_recorded_instances_and_digests_match() -> None:
    report = check_vectors(GOLDEN / "silo")
    assert report.failed == 0, report.first_difference
    assert report.skipped == 0 and report.passed >= (90 * 2 + 180 if ALL else 60)


def test_the_sample_matches_by_itself() -> None:
    report = check_vectors(SAMPLE / "silo")
    assert (report.failed, report.skipped) == (0, 0), report.first_difference


@pytest.mark.parametrize("task_id", ["I-07", "II-18", "III-24", "III-27"])
def test_own_stream_is_recognised_by_its_seed(tmp_path: Path, task_id: str) -> None:
    write(tmp_path, "a.json", instance(independent_case(task_id, 4, 77), seed=77))
    assert check_vectors(tmp_path) == (2, 0, 0, None)


def test_foreign_seed_skips_only_the_stream(tmp_path: Path) -> None:
    write(tmp_path, "a.json", instance(independent_case("I-01", 4, 77), seed=78))
    assert check_vectors(tmp_path) == (1, 0, 1, None)


def test_wrong_gold_is_found(tmp_path: Path) -> None:
    data = instance(independent_case("I-05", 4, 1), seed=1)
    data["agent_configs"][2]["expected_output"] += 1
    write(tmp_path, "a.json", data)
    report = check_vectors(tmp_path)
    assert report.failed == 1 and "gold of agent 2" in str(report.first_difference)


def test_a_chain_that_bites_itself_ends(tmp_path: Path) -> None:
    data = instance(independent_case("II-18", 2, 1), seed=1)
    shard = [{"id": 0, "next": 1}, {"id": 1, "next": 2}, {"id": 2, "next": 1}, {"id": 3, "next": 3}]
    data["agent_configs"][0]["input_shard"] = shard
    data["agent_configs"][1]["input_shard"] = []
    write(tmp_path, "a.json", data)
    report = check_vectors(tmp_path)
    assert report.failed == 1 and "gold of agent 0" in str(report.first_difference)


def test_changed_shipped_shard_is_found(tmp_path: Path) -> None:
    write(tmp_path, "a.json", instance(independent_case("I-01", 2, 1)))
    report = check_vectors(tmp_path)
    assert report.failed == 1 and "regenerated" in str(report.first_difference)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{", "null", '{"case_id": "I-01"}', '{"case_id": "X", "metadata": {}}',
        '{"case_id":"I-08","metadata":{"num_agents":2},"agent_configs":'
        '[{"agent_id":0,"input_shard":[9e99],"expected_output":1},'
        '{"agent_id":1,"input_shard":[99999999999999],"expected_output":1}]}',
        '{"case_id":"III-24","metadata":{"num_agents":2,"public_parameters":{"total_nodes":1e12}},'
        '"agent_configs":[{"agent_id":0,"input_shard":[[0,1]],"expected_output":1},'
        '{"agent_id":1,"input_shard":[[0,1]],"expected_output":1}]}',
        "[" * 5000,
    ],
)  # fmt: skip
def test_malformed_files_fail_with_a_reason(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    report = check_vectors(tmp_path)
    assert report.failed == 1 and report.first_difference is not None
    assert report.first_difference.startswith("bad.json: cannot be checked")


def test_bad_digest_and_index_are_found(tmp_path: Path) -> None:
    write(
        tmp_path, "UPSTREAM_DIGESTS.json", {"I-01_n2": {"shards_sha256": "0" * 16}, "I-01_n3": {}}
    )
    report = check_vectors(tmp_path)
    assert (report.failed, report.skipped) == (1, 1)
    write(tmp_path, "INDEX.json", [{"file": "UPSTREAM_DIGESTS.json", "sha256": "0"}])
    assert check_vectors(tmp_path).failed == 2


def test_empty_and_missing_folders_name_the_fix(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(ConfigError, match=r"give (a|the) folder"):
            check_vectors(folder)
