"""Devices by the names people and tools give them."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula.facts import accelerators

TABLE = Path(__file__).parents[3] / "shared" / "data" / "gpus.csv"
ALL = accelerators.all_accelerators()


def test_there_are_enough_and_every_name_is_its_own() -> None:
    assert len(ALL) >= 39
    for device in ALL:
        for name in (device.name, *device.names, *device.aliases):
            assert accelerators.find(name) == device, f"{name} names two devices"


def test_numbers_make_sense() -> None:
    for device in ALL:
        assert 0.85 * device.marketed_gb * 1e9 < device.memory_gib * 2**30 < 1.1 * device.marketed_gb * 2**30, device.name
        assert device.source
        if device.tflops_measured:
            assert 0.65 < device.tflops_measured / device.tflops < 1.2, device.name
        if device.tflops_fp8:
            assert 1.9 < device.tflops_fp8 / device.tflops < 2.1, device.name
        assert device.memory_gbps > device.link_gbps
        assert device.vendor in ("nvidia", "amd", "huawei")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("H100", "H100-SXM5-80GB"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"),
        ("h100 pcie", "H100-PCIE-80GB"),
        ("a100", "A100-SXM4-80GB"),
        ("A100-40g", "A100-SXM4-40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("4090", "RTX4090"),
        ("NVIDIA A10G", "A10G"),
        ("AMD Instinct MI300X", "MI300X"),
        ("910B3", "Ascend-910B3"),
        ("Ascend910_93", "Ascend-910C"),
        ("Tesla V100-SXM2-32GB", "V100-SXM2-32GB"),
    ],
)
def test_find(name: str, expected: str) -> None:
    device = accelerators.find(name)
    assert device is not None
    assert device.name == expected


@pytest.mark.parametrize("name", ["", "H", "H10", "GPU", "8xH100", "H1000"])
def test_find_does_not_guess(name: str) -> None:
    assert accelerators.find(name) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8xH100", ("H100-SXM5-80GB", 8)),
        (" 8 x h100 ", ("H100-SXM5-80GB", 8)),
        ("4*RTX 4090", ("RTX4090", 4)),
        ("16×910B3", ("Ascend-910B3", 16)),
        ("H100:8", ("H100-SXM5-80GB", 8)),
        ("A100-80Gx2", ("A100-SXM4-80GB", 2)),
        ("MI300X:8", ("MI300X", 8)),
        ("8xMI300X", ("MI300X", 8)),
        ("H20", ("H20-96GB", 1)),
        ("8", (None, 8)),
    ],
)
def test_parse_gpus(text: str, expected: tuple[str | None, int]) -> None:
    assert accelerators.parse_gpus(text) == expected


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("8xH101", "H100"),
        ("0xH100", "between 1"),
        ("0", "between 1"),
        ("", "8xH100"),
        ("x8", "8xH100"),
        ("-2", "8xH100"),
        ("9" * 30, "between 1"),
    ],
)
def test_parse_gpus_says_what_is_wrong(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match=hint) as caught:
        accelerators.parse_gpus(text)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=20))
def test_parse_gpus_never_fails_otherwise(text: str) -> None:
    try:
        name, count = accelerators.parse_gpus(text)
    except ValueError:
        return
    assert count >= 1
    assert name is None or accelerators.find(name) is not None


@pytest.mark.skipif(not TABLE.exists(), reason="shared/data/gpus.csv is not beside this checkout")
def test_agrees_with_the_table() -> None:
    columns = {"usable_gib": "memory_gib", "hbm_gbps": "memory_gbps", "bf16_dense_tflops": "tflops", "nvlink_gbps_per_dir": "link_gbps"}
    with TABLE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            device = accelerators.find(row["key"].split(" (")[0])
            assert device is not None, row["key"]
            assert {c: float(row[c] or 0) for c in columns} == {c: float(getattr(device, name)) for c, name in columns.items()}, row["key"]
