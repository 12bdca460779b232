"""SWEEP.json and the points it gives."""

from __future__ import annotations

import json

import pytest
from made_up import ROOT, SWEEP

from tools.sweep.sweep import STEPS, SweepError, kernel_of, point_plan, read_plan, read_sweep

SHAPE = {"batch": 1, "length": 4, "q_heads": 4, "kv_heads": 2}


def test_points_are_the_product_and_the_plans_own_tile_comes_first(sweep_file):
    sweep = read_sweep(sweep_file(tile={"tile_n": [32, 64], "tile_m": [128]}))
    own = {"tile_m": 64, "tile_n": 64, "query_in_registers": 1, "blocks_per_sm": 2}
    assert sweep.points(own) == {
        "tile_n64-tile_m64": own,
        "tile_n32-tile_m128": {**own, "tile_n": 32, "tile_m": 128},
        "tile_n64-tile_m128": {**own, "tile_m": 128},
    }


def test_the_plans_own_tile_is_one_point_if_the_ranges_have_it_too(sweep_file):
    sweep = read_sweep(sweep_file(tile={"tile_m": [64, 32]}))
    assert list(sweep.points({"tile_m": 64, "other": 1})) == ["tile_m64", "tile_m32"]


def test_every_tile_field_of_every_plan_can_be_swept(sweep_file):
    swept = 0
    for path in sorted((ROOT / "templates" / "plans").glob("*.json")):
        plan = json.loads(path.read_text())
        for operation in [step for step in STEPS if step in plan["kernels"]]:
            kernels = plan["kernels"][operation]
            shape = {**SHAPE, "cached": 7} if operation.startswith(("prefill", "decode")) else SHAPE
            for variant, kernel in enumerate(kernels if isinstance(kernels, list) else [kernels]):
                fields = {"plan": str(path), "operation": operation, "variant": variant, "shapes": [shape]}
                sweep = read_sweep(sweep_file(**fields, tile={name: [n] for name, n in kernel["tile"].items()}))
                assert kernel_of(read_plan(path, sweep), sweep)["tile"] == kernel["tile"]
                swept += len(kernel["tile"])
    assert swept > 100


def test_cases_are_dtypes_times_shapes(sweep_file):
    shapes = [SHAPE, {**SHAPE, "length": 8}]
    sweep = read_sweep(sweep_file(dtypes=["bfloat16", "float16"], shapes=shapes))
    assert [case.name for case in sweep.cases] == [
        "bfloat16 b1-h4/2-s4",
        "bfloat16 b1-h4/2-s8",
        "float16 b1-h4/2-s4",
        "float16 b1-h4/2-s8",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "../x"}, 'name: expected lower-case letters, digits, - and _, a letter or digit first, got "../x"'),
        ({"plan": None}, "plan: expected the path of a plan file, got nothing"),
        ({"operation": "append"}, "operation: expected one of forward, backward_dq"),
        ({"operation": []}, "operation: expected one of forward, backward_dq"),
        ({"variant": -1}, "variant: expected an integer from 0, got -1"),
        ({"tile": {}}, "tile: expected an object"),
        ({"tile": {"tile_m": 64}}, "tile: expected an object"),
        ({"tile": {"tile_m": [64, 64]}}, "tile: expected an object"),
        ({"tile": {"tile_m": [True]}}, "tile: expected an object"),
        ({"dtypes": ["float32"]}, "dtypes: expected a list from bfloat16, float16, each once"),
        ({"rounds": 4}, "rounds: expected an integer from 5 to 1000, got 4"),
        ({"rounds": 1001}, "rounds: expected an integer from 5 to 1000, got 1001"),
        (
            {"repeats": 3},
            "repeats: expected a field of name, plan, operation, variant, tile, dtypes, shapes, rounds, got",
        ),
        ({"shapes": []}, "shapes: expected a list of objects"),
        ({"shapes": [SHAPE, SHAPE]}, "shapes[1]: expected each shape once, got b1-h4/2-s4 again"),
        ({"shapes": [{**SHAPE, "batch": 0}]}, "shapes[0].batch: expected an integer from 1, got 0"),
        (
            {"shapes": [{**SHAPE, "cached": 3}]},
            "shapes[0].cached: expected a field of batch, length, q_heads, kv_heads, got an unknown one",
        ),
        ({"shapes": [{**SHAPE, "q_heads": 3}]}, "shapes[0].q_heads: expected a multiple of kv_heads, 2, got 3"),
        ({"operation": "prefill", "shapes": [SHAPE]}, "shapes[0].cached: expected an integer from 0, got nothing"),
        (
            {"operation": "decode", "shapes": [{**SHAPE, "cached": 3, "length": 9}]},
            "shapes[0].length: expected 1 to 8 for decode, got 9",
        ),
    ],
)
def test_a_wrong_field_is_named(sweep_file, change, message):
    with pytest.raises(SweepError) as error:
        read_sweep(file := sweep_file(**change))
    assert str(error.value).startswith(f"{file}: {message}")


@pytest.mark.parametrize("text", ["{", "[]", None])
def test_a_file_that_is_no_object(tmp_path, text):
    path = tmp_path / "sweep.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SweepError, match="sweep.json: (not JSON|expected a JSON object|can't be read)"):
        read_sweep(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"tile": {"stages": [2]}},
            "tile: expected one of tile_m, tile_n, query_in_registers, blocks_per_sm, which PLAN has for forward, "
            "got stages",
        ),
        ({"variant": 1}, "plan: expected one with a kernel for forward, variant 1, got PLAN"),
        ({"plan": "nowhere.json"}, "plan: PLAN: can't be read: No such file or directory"),
    ],
)
def test_what_the_plan_lacks_is_named(sweep_file, change, message):
    sweep = read_sweep(file := sweep_file(**change))
    with pytest.raises(SweepError) as error:
        read_plan(ROOT / sweep.plan, sweep)
    assert str(error.value) == f"{file}: {message.replace('PLAN', str(ROOT / sweep.plan))}"


def test_a_group_or_dtype_that_the_plan_is_not_for(sweep_file, tmp_path):
    plan = json.loads((ROOT / SWEEP["plan"]).read_text())
    path = tmp_path / "plan.json"
    sweep = read_sweep(sweep_file())
    path.write_text(json.dumps({**plan, "group": 2}))
    with pytest.raises(
        SweepError, match=r"sweep.json: shapes\[1\]: expected 2 q_heads for each kv_head, .* got 4 for 4"
    ):
        read_plan(path, sweep)
    path.write_text(json.dumps({**plan, "dtypes": ["float16"]}))
    with pytest.raises(SweepError, match="sweep.json: dtypes: expected a list from float16, .* got bfloat16"):
        read_plan(path, sweep)


def test_the_plan_of_a_point_has_the_chosen_variant_alone(sweep_file):
    kernels = [
        {"tile": {"tile_m": 16, "tile_n": 16}, "when": {"seq_len": [0, 9]}, "allow_spills": {"bytes": 8, "why": "x"}},
        {"tile": {"tile_m": 32, "tile_n": 32}},
    ]
    plan = {
        "arch": "sm_90",
        "group": 0,
        "dtypes": ["bfloat16", "float16"],
        "kernels": {"forward": kernels, "decode": {}},
    }
    sweep = read_sweep(sweep_file(variant=0))
    assert point_plan(plan, sweep, {"tile_m": 64, "tile_n": 16}) == {
        "arch": "sm_90",
        "group": 0,
        "dtypes": ["bfloat16"],
        "kernels": {"forward": {"tile": {"tile_m": 64, "tile_n": 16}, "allow_spills": {"bytes": 8, "why": "x"}}},
    }
