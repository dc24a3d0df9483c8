"""What rapt.torch.enable() replaces in transformers' models: the loops of the gated delta rule, and causal convolutions."""

from __future__ import annotations

import copy
import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rapt

torch = pytest.importorskip("torch")
import rapt.torch  # noqa: E402
from rapt import _torch_cpp, _torch_models  # noqa: E402

if _torch_cpp.version() < (2, 9):
    pytest.skip(f"rapt.torch.enable() needs PyTorch 2.9, and this is {torch.__version__}", allow_module_level=True)
T = pytest.importorskip("transformers")

Tensor = torch.Tensor
GATED = ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule")
BY_KEY = ("chunk_kimi_delta_attention", "recurrent_kimi_delta_attention")

SIZES: dict[str, Any] = {
    "vocab_size": 100, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 512,
    "layer_types": ["linear_attention", "full_attention"] * 2,
}  # fmt: skip
LINEAR: dict[str, Any] = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 24,
}  # fmt: skip
EXPERTS: dict[str, Any] = {
    "moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2, "shared_expert_intermediate_size": 32,
}  # fmt: skip
KIMI: dict[str, Any] = {
    "linear_head_dim": 16, "linear_num_heads": 4, "num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": None,
    "qk_rope_head_dim": 8, "v_head_dim": 16, "qk_nope_head_dim": 16, "n_group": 2, "topk_group": 1,
    "moe_intermediate_size": 32, "num_local_experts": 4, "num_experts_per_tok": 2,
}  # fmt: skip
HASHES: dict[str, Any] = {
    "ngram_vocab_size_base": 50, "hc_lowrank": 8, "ple_embed_dim": 16, "make_ngram_vocab_size_divisible_by": 8,
    "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 128,
    "indexer_compress_ratio": 4, "ple_layer_ids": [],
}  # fmt: skip
# Classes of models and their configurations, by module.
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "qwen3_next": ("Qwen3NextForCausalLM", "Qwen3NextConfig", {**LINEAR, **EXPERTS, "head_dim": 16}),
    "qwen3_5": ("Qwen3_5ForCausalLM", "Qwen3_5TextConfig", {**LINEAR, "head_dim": 16}),
    "qwen3_5_moe": ("Qwen3_5MoeForCausalLM", "Qwen3_5MoeTextConfig", {**LINEAR, **EXPERTS, "head_dim": 16}),
    "olmo_hybrid": ("OlmoHybridForCausalLM", "OlmoHybridConfig", {**LINEAR, "linear_num_key_heads": 4}),
    "lara_mini": (
        "LaraMiniForCausalLM", "LaraMiniConfig",
        {**LINEAR, **EXPERTS, "head_dim": 16, "layer_types": ["linear_attention", "sliding_attention"] * 2},
    ),
    "qwen4_exp": ("Qwen4ExpForCausalLM", "Qwen4ExpTextConfig", {**LINEAR, **EXPERTS, **HASHES, "head_dim": 16}),
    "kimi_linear": ("KimiLinearForCausalLM", "KimiLinearConfig", KIMI),
    "glm5_next": (
        "Glm5NextTextModel", "Glm5NextTextConfig",
        {**KIMI, "q_lora_rank": 16, "n_routed_experts": 4, "qk_rope_head_dim": 0, "n_group": 1},
    ),
    "bailing_hybrid": ("BailingHybridForCausalLM", "BailingHybridConfig", {**KIMI, "head_dim": 16}),
}  # fmt: skip
TOKENS, PADDING, DECODED = 90, 23, 20
IDS = torch.arange(2 * TOKENS).reshape(2, TOKENS) * 7 % 90 + 5
MASK = torch.ones(2, TOKENS, dtype=torch.int64)
MASK[1, :PADDING] = 0


def module_of(name: str) -> Any:
    return importlib.import_module(f"transformers.models.{name}.modeling_{name}")


def made(name: str, **more: Any) -> Any:
    kind, config, options = MODELS[name]
    model = getattr(T, kind)(getattr(T, config)(**{**SIZES, **options, **more}))
    with torch.no_grad():
        for of, parameter in model.named_parameters():
            numbers = torch.from_numpy(rapt.random_normal(tuple(parameter.shape), seed=zlib.crc32(of.encode())))
            is_scale = "norm" in of.lower() and of.endswith("weight")
            parameter.copy_(numbers * 0.08 + float(is_scale))
    return model.eval()


def answers(model: Any, ids: Tensor, cuts: list[int], mask: Tensor | None = None) -> Tensor:
    """Logits, or hidden states where a model has none, of a prompt that is cut into parts."""
    cache, parts = None, []
    for first, last in zip([0, *cuts], [*cuts, ids.shape[1]]):
        given: dict[str, Any] = {"input_ids": ids[:, first:last], "past_key_values": cache, "use_cache": True}
        if mask is not None:
            given["attention_mask"] = mask[:, :last]
            given["position_ids"] = (mask.cumsum(1) - 1).clamp(0)[:, first:last]
        output = model(**given)
        cache = output.past_key_values
        parts.append(output.logits if "logits" in output else output.last_hidden_state)
    return torch.cat(parts, 1)


DECODE = list(range(TOKENS - DECODED, TOKENS))


def rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    beta: Tensor,
    *,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    **_: Any,
) -> tuple[Tensor, Tensor | None]:
    """The definition, in float64, with the arguments of the loops."""
    q, k, v, g, beta = (x.double() for x in (query, key, value, g, beta))
    q, k = (x.repeat_interleave(v.shape[2] // x.shape[2], 2) for x in (q, k))
    if use_qk_l2norm_in_kernel:
        q, k = (x / ((x * x).sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    shape = v.shape[0], v.shape[2], k.shape[3], v.shape[3]
    s = v.new_zeros(shape) if initial_state is None else initial_state.double()
    decay = (g if g.dim() == 4 else g[..., None]).exp()
    outputs = []
    for t in range(v.shape[1]):
        s = s * decay[:, t, :, :, None]
        u = beta[:, t, :, None] * (v[:, t] - torch.einsum("bhk,bhkv->bhv", k[:, t], s))
        s = s + k[:, t, :, :, None] * u[:, :, None]
        outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t], s) / k.shape[3] ** 0.5)
    return torch.stack(outputs, 1).to(query.dtype), s if output_final_state else None


def numbers(*shape: int, seed: int) -> Tensor:
    return torch.from_numpy(rapt.random_normal(shape, seed=seed))


def arguments(name: str, dtype: Any = torch.float32, tokens: int = 70) -> list[Tensor]:
    """q, k, v, g, beta and a state, of a loop."""
    heads = 2 if name in GATED else 4
    q, k = (numbers(2, tokens, heads, 16, seed=seed).to(dtype) for seed in (1, 2))
    v, state = numbers(2, tokens, 4, 24, seed=3).to(dtype), numbers(2, 4, 16, 24, seed=4)
    g = -numbers(2, tokens, 4, *([] if name in GATED else [16]), seed=5).abs()
    return [q, k, v, g, numbers(2, tokens, 4, seed=6).sigmoid().to(dtype), state]


def called(loop: Any, x: list[Tensor], **options: Any) -> Any:
    *tensors, state = x
    defaults = {"initial_state": state, "output_final_state": True, "use_qk_l2norm_in_kernel": True}
    return loop(*tensors, **{**defaults, **options})


def loops() -> list[tuple[str, str]]:
    return [("qwen3_next", name) for name in GATED] + [("kimi_linear", name) for name in BY_KEY]


@pytest.fixture(params=[1, 3])
def threads(request: Any) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_all_modules_with_such_functions_are_known() -> None:
    """Those of this transformers. Others with these names have these arguments."""
    folder = Path(T.__file__).parent / "models"
    found = {name: [] for name in _torch_models._CALLS}
    for model in pkgutil.iter_modules([str(folder)]):
        source = folder / model.name / f"modeling_{model.name}.py"
        text = source.read_text() if source.is_file() else ""
        for name in found:
            if f"\ndef {name}(" in text:
                found[name].append(model.name)
    assert {*found[GATED[0]], *found[BY_KEY[0]]} == set(MODELS)
    assert found[GATED[0]] == found[GATED[1]] and found[BY_KEY[0]] == found[BY_KEY[1]]
    assert found["causal_conv1d_fn"] == found["causal_conv1d_update"] and len(found["causal_conv1d_fn"]) == 25
    with rapt.torch.enabled(strict=True):
        for name, models in found.items():
            for model in models:
                assert getattr(module_of(model), name).__wrapped__, (model, name)
    for name, models in found.items():
        for model in models:
            assert not is_replaced(getattr(module_of(model), name)), (model, name)


def is_replaced(function: Any) -> bool:
    return function.__code__.co_filename == _torch_models.__file__


@pytest.mark.parametrize("name", MODELS)
def test_a_prompt_has_the_same_bits_however_it_is_computed(name: str, threads: int) -> None:
    """At once, in chunks, token by token, alone and padded on the left, with and without gradients."""
    model = made(name)
    with rapt.torch.enabled(strict=True):
        for dtype in (torch.float32, torch.bfloat16):
            model = model.to(dtype)
            with torch.no_grad():
                whole = answers(model, IDS, [])
                calls = rapt.torch.report().replaced
                assert calls["gated_delta_rule"] and calls["causal_conv1d"]
                for cuts in (DECODE, [3, 50], [64]):
                    assert torch.equal(answers(model, IDS, cuts), whole), cuts
                alone = answers(model, IDS[1:, PADDING:], list(range(1, TOKENS - PADDING)))
                for cuts in ([], DECODE):
                    assert torch.equal(answers(model, IDS, cuts, MASK)[1:, PADDING:], alone), cuts
                assert torch.equal(answers(model, IDS[:1], [40]), whole[:1])
            assert torch.equal(answers(model, IDS, []).detach(), whole)


@pytest.mark.parametrize("name", ["qwen3_next", "kimi_linear"])
def test_static_caches_and_generation(name: str) -> None:
    """Greedy texts are those of a prompt that has them."""
    model = made(name)
    with rapt.torch.enabled(strict=True), torch.inference_mode():
        whole, cache = answers(model, IDS, []), T.StaticCache(config=model.config, max_cache_len=100)
        parts = [
            model(input_ids=IDS[:, first:last], past_key_values=cache, use_cache=True).logits
            for first, last in zip([0, 40, *DECODE], [40, *DECODE, TOKENS])
        ]
        assert torch.equal(torch.cat(parts, 1), whole)
        model.generation_config.eos_token_id = None
        prompt = IDS[:, :70]
        texts = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=8, do_sample=False)
        assert torch.equal(texts[:, 70:], answers(model, texts, [])[:, 69:-1].argmax(-1)) and texts.shape[1] == 78


@pytest.mark.parametrize("name", MODELS)
def test_models_differ_from_the_definition_as_with_their_own_loops(name: str) -> None:
    """A prompt and 20 tokens after it, padded on the left too."""
    model = made(name)
    exact = copy.deepcopy(model).double()
    for part in exact.modules():
        if hasattr(part, "config"):
            part.config._experts_implementation = "eager"  # the default has no float64
    for mask in (None, MASK):
        with torch.no_grad():
            own = answers(model, IDS, DECODE, mask).double()
            with rapt.torch.enabled(strict=True):
                ours = answers(model, IDS, DECODE, mask).double()
            with pytest.MonkeyPatch.context() as patch:
                module = module_of(name)
                for loop in (*GATED, *BY_KEY):
                    if hasattr(module, loop):
                        patch.setattr(module, loop, rule)
                wanted = answers(exact, IDS, DECODE, mask)
        seen = torch.ones_like(MASK, dtype=torch.bool) if mask is None else mask.bool()
        error, of_own = ((x - wanted)[seen].abs().max() for x in (ours, own))
        assert error <= 4 * of_own + 1e-6 * wanted.abs().max(), (error, of_own)
        assert error < 1e-4 * wanted.abs().max()


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, "mixed"], ids=str)
@pytest.mark.parametrize("module, name", loops())
def test_calls_next_to_the_definition(module: str, name: str, dtype: Any, norm: bool) -> None:
    """Outputs have the type of q and states float32, as with the loops."""
    x = arguments(name, torch.float32 if dtype == "mixed" else dtype)
    if dtype == "mixed":
        x[0], x[4], x[5] = x[0].bfloat16(), x[4].half(), x[5].bfloat16()
    if not norm:
        x[1] = x[1] / 6  # or else states grow
    loop = getattr(module_of(module), name)
    options = {"use_qk_l2norm_in_kernel": norm}
    wanted, after = called(rule, [y.double() for y in x], **options)
    own, of_own = called(loop, x, **options)
    with rapt.torch.enabled(strict=True):
        out, state = called(getattr(module_of(module), name), x, **options)
        assert rapt.torch.report().replaced == {"gated_delta_rule": 1}
    assert (out.dtype, out.shape) == (own.dtype, own.shape) and out.dtype == x[0].dtype
    assert (state.dtype, state.shape) == (of_own.dtype, of_own.shape) and state.dtype == torch.float32
    for y, other, exact in ((out, own, wanted), (state, of_own, after)):
        error, of_other = ((given.double() - exact).abs().max() for given in (y, other))
        assert error <= 2 * of_other + 1e-6 * exact.abs().max(), (error, of_other)


@pytest.mark.parametrize("module, name", loops())
def test_layouts_have_the_same_bits(module: str, name: str) -> None:
    """Transposed, with gaps, and repeated; of one token, and of one head."""
    x = arguments(name)
    copies = [y.clone() for y in x]
    with rapt.torch.enabled(strict=True):
        loop = getattr(module_of(module), name)
        expected = called(loop, x)
        for change in (
            lambda y: y.transpose(1, 2).contiguous().transpose(1, 2),
            lambda y: y.transpose(1, -1).contiguous().transpose(1, -1),
            lambda y: torch.cat([y, y], -1)[..., : y.shape[-1]],
            lambda y: torch.stack([y, y], -1)[..., 0],
        ):
            for got, wanted in zip(called(loop, [change(y) for y in x]), expected):
                assert torch.equal(got, wanted)
        for place in range(5):
            repeated = [*x]
            repeated[place] = x[place][:1].expand(x[place].shape)
            plain = [*repeated]
            plain[place] = plain[place].contiguous()
            assert all(torch.equal(*pair) for pair in zip(called(loop, repeated), called(loop, plain)))
        for cut in (slice(0, 1), slice(68, 70)):
            first = called(loop, [y[:, cut] for y in x[:5]] + [x[5]])
            again = called(loop, [y[:, cut].contiguous() for y in x[:5]] + [x[5]])
            assert all(torch.equal(*pair) for pair in zip(first, again))
        assert called(loop, x, output_final_state=False)[1] is None
        zeros = called(loop, [*x[:5], torch.zeros_like(x[5])])
        none = called(loop, [*x[:5], None])
        assert all(torch.equal(*pair) for pair in zip(zeros, none))
    assert all(torch.equal(*pair) for pair in zip(x, copies))


def test_large_calls_have_the_bits_of_small_ones(threads: int) -> None:
    """A call of threads, and its tokens one by one, of each sequence alone."""
    q, k = (numbers(2, 200, 2, 64, seed=seed) for seed in (1, 2))
    v, g = numbers(2, 200, 4, 64, seed=3), -numbers(2, 200, 4, seed=5).abs()
    x = [q, k, v, g, numbers(2, 200, 4, seed=6).abs()]
    module = module_of("qwen3_next")
    with rapt.torch.enabled(strict=True):
        whole, after = called(module.torch_chunk_gated_delta_rule, [*x, None])
        for b in range(2):
            state = torch.zeros(1, 4, 64, 64)
            for t in range(200):
                token = [y[b : b + 1, t : t + 1] for y in x]
                out, state = called(module.torch_recurrent_gated_delta_rule, [*token, state])
                assert torch.equal(out, whole[b : b + 1, t : t + 1])
            assert torch.equal(state, after[b : b + 1])


@pytest.mark.parametrize("module, name", loops())
def test_gradients_are_those_of_the_loop(module: str, name: str) -> None:
    """Also second ones, of a tensor that is two arguments, and where only some are needed."""
    loop = getattr(module_of(module), name)

    def gradients(loop: Any, needed: list[int], twice: bool) -> Any:
        x = arguments(name)
        for i in needed:
            x[i].requires_grad_()
        given = [x[0], x[0], *x[2:]] if twice else x
        out, state = called(loop, given)
        first = torch.autograd.grad(out.sin().sum() + state.square().sum(), [x[i] for i in needed], create_graph=twice)
        if twice:
            return [*first, *torch.autograd.grad(first[0].square().sum(), [x[0]])]
        return first

    for needed, twice in (([0, 1, 2, 3, 4, 5], False), ([2], False), ([5], False), ([0, 3], True)):
        own = gradients(loop, needed, twice)
        with rapt.torch.enabled(strict=True):
            ours = gradients(getattr(module_of(module), name), needed, twice)
            assert rapt.torch.report().replaced["gated_delta_rule_backward"] == 1
        for x, y in zip(ours, own):
            torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5 * float(y.abs().max()))
    with rapt.torch.enabled(strict=True):
        x = arguments(name)
        x[2].requires_grad_()
        y = called(getattr(module_of(module), name), x)[0]
    y.sum().backward()  # after disable()
    assert x[2].grad is not None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, "mixed"], ids=str)
@pytest.mark.parametrize("module, name", loops())
def test_gradients_next_to_the_definition(module: str, name: str, dtype: Any, threads: int) -> None:
    """In the types of the inputs; with the same bits for any threads, layouts and inputs that need one."""
    x = arguments(name, torch.float32 if dtype == "mixed" else dtype)
    if dtype == "mixed":
        x[0], x[4], x[5] = x[0].bfloat16(), x[4].half(), x[5].bfloat16()

    def gradients(loop: Any, x: list[Tensor], needed: tuple[int, ...] = (0, 1, 2, 3, 4, 5)) -> Any:
        x = [y.detach().requires_grad_(i in needed) for i, y in enumerate(x)]
        out, state = called(loop, x)
        return torch.autograd.grad(
            (out, state), [x[i] for i in needed], [way.to(y.dtype) for way, y in zip(ways, (out, state))]
        )

    ways = numbers(2, 70, 4, 24, seed=7), numbers(2, 4, 16, 24, seed=8)
    wanted = gradients(rule, [y.double() for y in x])
    loop = getattr(module_of(module), name)
    own = gradients(loop, x)
    with rapt.torch.enabled(strict=True):
        ours = gradients(getattr(module_of(module), name), x)
        assert rapt.torch.report().replaced == {"gated_delta_rule": 1, "gated_delta_rule_backward": 1}
        torch.set_num_threads(2)
        again = gradients(getattr(module_of(module), name), [y.transpose(0, 1).contiguous().transpose(0, 1) for y in x])
        some = gradients(getattr(module_of(module), name), x, (1, 3))
    for y, other, exact, given in zip(ours, own, wanted, x):
        assert (y.dtype, y.shape) == (given.dtype, given.shape)
        error, of_other = ((z.double() - exact).abs().max() for z in (y, other))
        assert error <= 2 * of_other + 4e-6 * exact.abs().max(), (error, of_other)
    assert all(torch.equal(*pair) for pair in zip(ours, again))
    assert torch.equal(ours[1], some[0]) and torch.equal(ours[3], some[1])


def test_operators_are_as_their_schemas_say() -> None:
    """What they change, and shapes, types and strides without memory. torch.export reads these."""
    checks = ("test_schema", "test_faketensor")
    with rapt.torch.enabled(strict=True):
        for module, name in loops():
            given = (*arguments(name, torch.bfloat16), True, f"transformers.models.{module}.modeling_{module}.{name}")
            torch.library.opcheck(torch.ops.rapt.gated_delta_rule.default, given, test_utils=checks)
            for of_out, of_state in ((given[2], given[5]), (None, given[5]), (given[2], None)):
                of_backward = (*given[:6], of_out, of_state, True)
                operator = torch.ops.rapt.gated_delta_rule_backward.default
                torch.library.opcheck(operator, of_backward, test_utils=checks)
        x, weight, state = numbers(2, 30, 40, seed=1).mT, numbers(40, 4, seed=2), numbers(2, 40, 3, seed=3)
        for given in ((x, weight, weight[:, 0], None, True), (x[..., :1], weight, None, state, False)):
            torch.library.opcheck(torch.ops.rapt.causal_conv1d.default, given, test_utils=checks)


def test_compilers_and_transforms() -> None:
    """One node of a graph, and the bits of the plain program."""
    model = made("qwen3_5", num_hidden_layers=2, layer_types=["linear_attention", "full_attention"])

    class Logits(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Tensor) -> Tensor:
            return self.model(input_ids=ids, use_cache=False).logits

    net, ids = Logits(), IDS[:, :9]
    parameters = {name: p.detach() for name, p in net.named_parameters()}

    def loss(p: Any, ids: Tensor) -> Tensor:
        return torch.func.functional_call(net, p, (ids,)).sin().sum()

    with rapt.torch.enabled(strict=True):
        plain = net(ids)
        plain.sin().sum().backward()
        of_plain = {name: p.grad for name, p in net.named_parameters()}
        with torch.no_grad():
            exported = torch.export.export(net, (ids,))
            assert torch.equal(exported.module()(ids), plain)
            names = [str(node.target) for node in exported.graph.nodes]
            assert names.count("rapt.gated_delta_rule.default") == names.count("rapt.causal_conv1d.default") == 1
            assert torch.equal(torch.func.vmap(lambda one: net(one[None])[0])(ids), plain)
        torch._dynamo.reset()
        for gradients in (False, True):
            with torch.set_grad_enabled(gradients):
                assert torch.equal(torch.compile(net, backend="rapt", fullgraph=True)(ids), plain), gradients
        net.zero_grad()
        count = rapt.torch.report().replaced["gated_delta_rule_backward"]
        torch.compile(net, backend="rapt", fullgraph=True)(ids).sin().sum().backward()
        assert rapt.torch.report().replaced["gated_delta_rule_backward"] == count + 1
        for name, p in net.named_parameters():
            close = {"rtol": 1e-4, "atol": 1e-4 * float(of_plain[name].abs().max())}
            torch.testing.assert_close(p.grad, of_plain[name], **close)
        torch._dynamo.reset()
        compiled = torch.compile(lambda ids, cache: model(input_ids=ids, past_key_values=cache).logits, backend="rapt")
        with torch.no_grad():
            cache = T.DynamicCache(config=model.config)
            parts = [compiled(ids[:, first:last], cache) for first, last in ((0, 7), (7, 8), (8, 9))]
        assert torch.equal(torch.cat(parts, 1), plain)
        torch._dynamo.reset()
        one = torch.func.vmap(torch.func.grad(lambda p, of: loss(p, of[None])), in_dims=(None, 0))(parameters, ids)
        for name, expected in of_plain.items():
            close = {"rtol": 1e-4, "atol": 1e-4 * float(expected.abs().max())}
            torch.testing.assert_close(torch.func.grad(loss)(parameters, ids)[name], expected, **close)
            torch.testing.assert_close(one[name].sum(0), expected, **close)
        chunk = module_of("qwen3_next").torch_chunk_gated_delta_rule
        x = arguments(GATED[0])[:5] + [None]
        tangent = torch.func.jvp(lambda v: called(chunk, [*x[:2], v, *x[3:]])[0], (x[2],), (x[2],))[1]
        torch.testing.assert_close(tangent, called(chunk, x)[0])  # the rule is linear in v


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize("has_bias", [False, True])
def test_convolutions_have_the_bits_of_conv1d(threads: int, has_bias: bool, activation: Any, dtype: Any) -> None:
    module = module_of("qwen3_next")
    bias = numbers(600, seed=3).to(dtype) if has_bias else None
    for taps in (1, 4):
        weight = numbers(600, taps, seed=2).to(dtype)
        x = numbers(2, 1900, 600, seed=1).to(dtype).mT
        with rapt.torch.enabled(strict=True), torch.no_grad():
            fn, update = module.causal_conv1d_fn, module.causal_conv1d_update
            whole = fn(x, weight, bias, activation)
            assert "causal_conv1d" in rapt.torch.report().replaced
            own = fn.__wrapped__(x, weight, bias, activation)
            assert torch.equal(whole, own) and whole.dtype == own.dtype and whole.shape == own.shape
            for other in (x.contiguous(), torch.cat([x, x], 1)[:, :600], x[:1].expand(2, 600, 1900)):
                assert torch.equal(fn(other, weight, bias, activation)[:1], whole[:1])
            for length in (3, 4, 7):
                state = x[..., 20 - length : 20].contiguous()
                wanted, of_own = x[..., 21 - length : 21].contiguous(), state.clone()
                token = x[..., 20:21]
                y = update(token, state, weight, bias, activation)
                assert torch.equal(y, whole[..., 20:21]) and torch.equal(state, wanted)
                assert torch.equal(update.__wrapped__(token, of_own, weight, bias, activation), y)
            count = rapt.torch.report().replaced["causal_conv1d"]
            state = x[..., :4].contiguous()
            update(x[..., 4:6], state, weight, bias, activation)  # two tokens: the model's own
            fn(x, weight, bias, "gelu")
            fn(x.contiguous(), weight, bias, activation)  # a token's channels lie apart
            assert rapt.torch.report().replaced["causal_conv1d"] == count


def test_gradients_of_convolutions_are_those_of_the_function() -> None:
    x, weight = numbers(2, 30, 40, seed=1).mT, numbers(40, 4, seed=2).requires_grad_()
    module = module_of("mamba")
    with rapt.torch.enabled(strict=True):
        y = module.causal_conv1d_fn(x, weight, None, "silu")
        assert "causal_conv1d" not in rapt.torch.report().replaced
        (of_weight,) = torch.autograd.grad(y.sum(), weight)
        with torch.no_grad():
            assert torch.equal(module.causal_conv1d_fn(x, weight, None, "silu"), y)
        assert rapt.torch.report().replaced["causal_conv1d"] == 1
    assert of_weight.abs().sum() > 0


def test_modules_get_their_functions_back() -> None:
    module, x = module_of("qwen3_next"), arguments(GATED[0])
    own = {name: getattr(module, name) for name in (*GATED, "causal_conv1d_fn", "causal_conv1d_update")}
    before = called(module.torch_chunk_gated_delta_rule, x)
    with rapt.torch.enabled():
        kept = module.torch_chunk_gated_delta_rule
        assert kept is not own[GATED[0]] and kept.__wrapped__ is own[GATED[0]] and kept.__doc__ == own[GATED[0]].__doc__
        with rapt.torch.enabled():
            assert module.torch_chunk_gated_delta_rule is kept
        assert module.torch_chunk_gated_delta_rule is kept
        inside = called(kept, x)
    assert {name: getattr(module, name) for name in own} == own
    for got, wanted in zip(called(kept, x), before):
        assert torch.equal(got, wanted)
    with rapt.torch.enabled():  # a layer of an older transformers, which has kept what it found
        for got, wanted in zip(called(kept, x), inside):
            assert torch.equal(got, wanted)

    def mine(*_: Any, **__: Any) -> str:
        return "mine"

    with rapt.torch.enabled():
        module.torch_chunk_gated_delta_rule = mine
    assert module.torch_chunk_gated_delta_rule is mine  # what another library has put there
    module.torch_chunk_gated_delta_rule = own[GATED[0]]


def test_functions_may_be_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the package `kernels` makes them."""
    module, x = module_of("qwen3_next"), arguments(GATED[0])
    own = module.torch_chunk_gated_delta_rule

    class Function(torch.nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return own(*args, **kwargs)

    parameters = list(inspect.signature(own).parameters.values())
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    Function.forward.__signature__ = inspect.Signature([itself, *parameters])
    function = Function()
    monkeypatch.setattr(module, GATED[0], function)
    with rapt.torch.enabled(strict=True):
        called(module.torch_chunk_gated_delta_rule, x)
        assert rapt.torch.report().replaced == {"gated_delta_rule": 1}
        x[2].requires_grad_()
        called(module.torch_chunk_gated_delta_rule, x)[0].sum().backward()
    assert x[2].grad is not None and module.torch_chunk_gated_delta_rule is function


def test_calls_that_stay_with_the_model() -> None:
    """Packed sequences, other shapes, no tokens, integers: its answer, or its error."""
    module, x = module_of("qwen3_next"), arguments(GATED[0])
    with rapt.torch.enabled():
        chunk = module.torch_chunk_gated_delta_rule
        with pytest.raises(ValueError, match="packed sequences"):
            called(chunk, x, cu_seqlens=torch.tensor([0, 3, 70]))
        with pytest.raises(RuntimeError):
            called(chunk, [x[0], x[1][..., :8], *x[2:]])
        with pytest.raises(RuntimeError):
            called(chunk, [*x[:5], x[5][:, :1, :3]])
        with pytest.raises(RuntimeError):
            called(chunk, [torch.cat([y, y[:, :, :1]], 2) for y in x[:2]] + x[2:])
        with pytest.raises(TypeError):
            chunk(*x[:5], 64, x[5], True, True, 7)
        with pytest.raises(TypeError):
            chunk(x[0])
        assert "gated_delta_rule" not in rapt.torch.report().replaced
        assert called(chunk, [y.to("meta") for y in x])[0].device.type == "meta"
        by_place = chunk(*x[:5], 64, x[5], True, True)
        assert rapt.torch.report().replaced["gated_delta_rule"] == 1
        by_name = called(chunk, x, position_ids=None, use_cache=True)
        assert all(torch.equal(*pair) for pair in zip(by_place, by_name))


def test_special_values() -> None:
    """As the definition has them: a NaN of a query stays in its token, and -inf forgets what was before."""
    module, x = module_of("qwen3_next"), arguments(GATED[0])
    with rapt.torch.enabled(strict=True):
        chunk = module.torch_chunk_gated_delta_rule
        out, state = called(chunk, x)
        x[0][0, 7, 1, 3] = float("nan")
        with_nan, same = called(chunk, x)
        assert torch.equal(state, same) and torch.equal(with_nan[1], out[1])
        assert with_nan[0, 7, 2:].isnan().all() and torch.equal(with_nan[0, 8:], out[0, 8:])
        x = arguments(GATED[0])
        x[3][:, 30] = -float("inf")
        forgetful = called(chunk, x)
        later = called(chunk, [y[:, 30:] for y in x[:5]] + [torch.zeros_like(x[5])])
        assert torch.equal(forgetful[0][:, 30:], later[0]) and torch.equal(forgetful[1], later[1])


def test_threads_that_enable_and_call_at_once() -> None:
    """Each call has the bits of rapt or those of PyTorch, and at the end all functions are back."""
    module, x = module_of("qwen3_next"), arguments(GATED[0])
    own = module.torch_chunk_gated_delta_rule
    with rapt.torch.enabled():
        ours = called(module.torch_chunk_gated_delta_rule, x)[0]
    wrong: list[str] = []

    def call() -> None:
        for _ in range(30):
            y = called(module.torch_chunk_gated_delta_rule, x)[0]
            if not torch.equal(y, ours) and (y - ours).abs().max() > 1e-5:
                wrong.append("call")

    callers = [threading.Thread(target=call) for _ in range(3)]
    for thread in callers:
        thread.start()
    for _ in range(4):
        with rapt.torch.enabled():
            pass
    for thread in callers:
        thread.join(60)
    assert not wrong and module.torch_chunk_gated_delta_rule is own


def test_modules_of_children() -> None:
    """With RAPT_TORCH in the environment, and a module that is the first to import PyTorch."""
    program = """
import rapt._torch_children, sys
assert "torch" not in sys.modules
import transformers.models.qwen3_next.modeling_qwen3_next as module
print(module.torch_chunk_gated_delta_rule.__code__.co_filename.endswith("_torch_models.py"))
"""
    environment = {**os.environ, "RAPT_TORCH": "1"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize("first", ["rapt.torch", "transformers.models.olmo_hybrid.modeling_olmo_hybrid"])
def test_modules_may_be_imported_before_or_after(first: str) -> None:
    second = "transformers.models.olmo_hybrid.modeling_olmo_hybrid"
    program = f"""
import importlib, sys
importlib.import_module("{first}")
import rapt.torch
rapt.torch.enable()
module = importlib.import_module("{second}")
print(module.torch_chunk_gated_delta_rule.__code__.co_filename.endswith("_torch_models.py"))
print(type(module.__loader__) is type(module.__spec__.loader) is type(sys.modules["transformers.cache_utils"].__loader__))
rapt.torch.disable()
import transformers.models.qwen3_next.modeling_qwen3_next as module
print(module.torch_chunk_gated_delta_rule.__code__.co_filename.endswith("_torch_models.py"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "True\nTrue\nFalse\n", done.stderr
