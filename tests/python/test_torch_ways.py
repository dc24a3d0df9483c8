"""rapt.torch.enable() under what PyTorch makes of a program: transforms, export, compilation, autocast, and other processes."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rapt

torch = pytest.importorskip("torch")
import rapt.torch  # noqa: E402
from rapt import _torch_cpp  # noqa: E402

if _torch_cpp.version() < (2, 9):
    pytest.skip(f"rapt.torch.enable() needs PyTorch 2.9, and this is {torch.__version__}", allow_module_level=True)

F = torch.nn.functional
SOURCES = Path(rapt.__file__).parents[1]


@pytest.fixture(autouse=True, params=["python", "cpp"])
def enabled(request: Any) -> Iterator[None]:
    if request.param == "cpp" and not _torch_cpp.is_built():
        pytest.skip("the kernels in C++ are not compiled: python -m rapt.torch --build")
    with rapt.torch.enabled(strict=True, cpp=request.param == "cpp"):
        yield


class Block(torch.nn.Module):
    """Attention, norms, a convolution and a gated layer."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(5)
            self.norm, self.qkv = torch.nn.LayerNorm(16), torch.nn.Linear(16, 48)
            self.rms, self.up, self.down = torch.nn.RMSNorm(16), torch.nn.Linear(16, 40), torch.nn.Linear(20, 16)
            self.mix = torch.nn.Conv1d(16, 16, 3, padding=1, groups=4)

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        a, b = self.up(self.rms(x)).chunk(2, -1)
        return x + self.down(F.silu(a) * b.tanh()) + self.mix(x.mT).mT


def tokens(batch: int = 3) -> Any:
    return torch.from_numpy(rapt.random_normal((batch, 7, 16), seed=3))


def gradients(block: Any, y: Any) -> list[int]:
    block.zero_grad()
    y.square().sum().backward()
    return [rapt.torch.hash(p.grad) for p in block.parameters()]


def test_compiled_programs_have_the_bits_of_plain_ones() -> None:
    block, x = Block(), tokens()
    expected = block(x)
    of_plain = gradients(block, expected)
    for backend in ("rapt", "aot_eager", "eager"):
        torch._dynamo.reset()
        y = torch.compile(block, backend=backend, fullgraph=True)(x)
        assert torch.equal(y, expected), backend
        of_this = gradients(block, y)
        assert of_this == of_plain or backend != "eager"
    torch._dynamo.reset()


@pytest.mark.parametrize("enabled", ["python"], indirect=True)
@pytest.mark.parametrize("first", ["torch._inductor.utils", "torch._dynamo", "torch._dynamo.backends.registry"])
def test_modules_of_compilers_may_be_imported_later(first: str, tmp_path: Path) -> None:
    program = f"import rapt.torch, {first}, torch; print('rapt' in torch._dynamo.list_backends())"
    done = run_here(["-c", program], tmp_path)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_sizes_may_be_symbols() -> None:
    block = Block()
    torch._dynamo.reset()
    compiled = torch.compile(block, backend="rapt", dynamic=True)
    for gradients in (True, False):
        with torch.set_grad_enabled(gradients):
            for batch in (3, 2, 5):
                assert torch.equal(compiled(tokens(batch)), block(tokens(batch)))
    with torch.no_grad():
        sizes = {"x": {0: torch.export.Dim("batch", min=2, max=9)}}
        exported = torch.export.export(block, (tokens(),), dynamic_shapes=sizes).module()
        assert torch.equal(exported(tokens(5)), block(tokens(5)))

        def of_other_values(q: Any, mask: Any) -> Any:
            return F.scaled_dot_product_attention(q, q, q[..., :5], mask)

        torch._dynamo.reset()
        compiled = torch.compile(of_other_values, backend="rapt", dynamic=True)
        for length in (7, 9, 12):
            q = torch.from_numpy(rapt.random_normal((2, 3, length, 8), seed=length))
            mask = torch.ones(length, length, dtype=torch.bool).tril()
            assert torch.equal(compiled(q, mask), of_other_values(q, mask))
    torch._dynamo.reset()


def test_who_watches_operators_sees_those_of_pytorch() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    block, x, seen = Block(), tokens(), []
    mask = torch.ones(3, 1, 7, 7, dtype=torch.bool).tril()
    for _ in range(2):
        names: list[str] = []
        for gradients in (False, True):
            with torch.set_grad_enabled(gradients), Names():
                y = block(x)
                F.scaled_dot_product_attention(x[:, None], x[:, None], y[:, None], mask)
        seen.append(names)
        rapt.torch.disable()
    rapt.torch.enable(strict=True)  # the fixture takes it back
    assert seen[0] == seen[1]


def test_inductor_is_named() -> None:
    torch._dynamo.reset()
    with pytest.raises(Exception, match="inductor compiles loops of its own"):
        torch.compile(Block())(tokens())
    torch._dynamo.reset()
    assert rapt.torch.report().uncovered == {"torch.compile by inductor": 1}


def test_exported_programs_have_the_bits_of_plain_ones() -> None:
    block, x = Block().eval(), tokens()
    with torch.no_grad():
        for strict in (False, True):
            exported = torch.export.export(block, (x,), strict=strict)
            assert torch.equal(exported.module()(x), block(x))
        assert torch.equal(torch.jit.trace(block, (x,), check_trace=False)(x), block(x))


def test_transforms_of_functions() -> None:
    block, x = Block(), tokens()
    parameters = {name: p.detach() for name, p in block.named_parameters()}

    def loss(given: Any, x: Any) -> Any:
        return torch.func.functional_call(block, given, (x,)).square().sum()

    gradient = torch.func.grad(loss)(parameters, x)
    gradients(block, block(x))
    for name, p in block.named_parameters():  # which may be added up in another order
        torch.testing.assert_close(gradient[name], p.grad, rtol=1e-5, atol=1e-5)
    # A batch of calls has the bits of each: of products, sums and maps, and of attention.
    each = torch.stack([block(one[None]) for one in x]).detach()
    assert torch.equal(torch.func.vmap(lambda one: block(one[None]))(x).detach(), each)
    of_each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x[:, None])
    for i in range(len(x)):
        one = torch.func.grad(loss)(parameters, x[i : i + 1])
        for name in parameters:
            torch.testing.assert_close(of_each[name][i], one[name], rtol=1e-4, atol=1e-5)
    _, tangent = torch.func.jvp(torch.nn.Linear(16, 4).double(), (x.double(),), (x.double(),))
    assert tangent.shape == (3, 7, 4)
    hessian = torch.func.hessian(lambda x: x.exp().sum() * x.sin().sum())(x[0, 0])
    assert torch.allclose(hessian, hessian.T)


def test_autocast() -> None:
    block, x = Block(), tokens()
    with torch.autocast("cpu", torch.bfloat16):
        y, again = block(x), block(x[1:2])
    assert torch.equal(again, y[1:2])
    assert torch.allclose(y.float(), block(x), rtol=0.1, atol=0.1)


def of_gradients() -> list[tuple[str, Callable[..., Any], list[tuple[int, ...]]]]:
    return [
        ("linear", F.linear, [(3, 4), (5, 4), (5,)]),
        ("bmm", torch.bmm, [(2, 3, 4), (2, 4, 2)]),
        ("softmax", lambda x: x.softmax(-1), [(3, 5)]),
        ("log_softmax", lambda x: x.log_softmax(0), [(3, 5)]),
        ("layer_norm", lambda x, w, b: F.layer_norm(x, (5,), w, b), [(3, 5), (5,), (5,)]),
        ("rms_norm", lambda x, w: F.rms_norm(x, (5,), w), [(3, 5), (5,)]),
        ("group_norm", lambda x: F.group_norm(x, 2), [(2, 4, 3)]),
        ("batch_norm", lambda x: F.batch_norm(x, None, None, training=True), [(4, 3)]),
        ("gelu", F.gelu, [(7,)]),
        ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), [(7,)]),
        ("silu", F.silu, [(7,)]),
        ("sigmoid", torch.sigmoid, [(7,)]),
        ("tanh", torch.tanh, [(7,)]),
        ("softplus", F.softplus, [(7,)]),
        ("logsigmoid", F.logsigmoid, [(7,)]),
        ("mish", F.mish, [(7,)]),
        ("elu", F.elu, [(7,)]),
        ("glu", lambda x: F.glu(x, 0), [(4, 3)]),
        ("exp", torch.exp, [(7,)]),
        ("sin", torch.sin, [(7,)]),
        ("erf", torch.erf, [(7,)]),
        ("rsqrt", lambda x: (x * x + 1).rsqrt(), [(7,)]),
        ("log1p", lambda x: (x * x).log1p(), [(7,)]),
        ("atan2", torch.atan2, [(5,), (5,)]),
        ("pow", lambda x, y: (x * x + 1) ** y, [(5,), (5,)]),
        ("norm", lambda x: torch.linalg.vector_norm(x, dim=1), [(3, 4)]),
        ("var", lambda x: x.var(1), [(3, 4)]),
        ("cumsum", lambda x: x.cumsum(1), [(3, 4)]),
        ("prod", lambda x: x.prod(1), [(3, 4)]),
        ("lerp", torch.lerp, [(4,), (4,), (4,)]),
        ("conv1d", lambda x, w, b: F.conv1d(x, w, b, padding=1, stride=2), [(2, 4, 5), (6, 4, 3), (6,)]),
        ("conv2d", lambda x, w: F.conv2d(x, w, groups=2), [(1, 4, 4, 3), (2, 2, 2, 2)]),
        ("conv_transpose", lambda x, w: F.conv_transpose1d(x, w, stride=2), [(2, 3, 4), (3, 2, 3)]),
        ("cross_entropy", lambda x: F.cross_entropy(x, torch.tensor([1, 0, 2])), [(3, 4)]),
        ("bilinear", lambda x: F.interpolate(x, 5, mode="bilinear"), [(1, 2, 3, 3)]),
    ]


@pytest.mark.parametrize("name, function, shapes", of_gradients(), ids=lambda x: x if isinstance(x, str) else "")
def test_gradients_of_first_and_second_order(name: str, function: Any, shapes: Any) -> None:
    inputs = [
        torch.from_numpy(rapt.random_normal(s, seed=i + 1)).double().requires_grad_() for i, s in enumerate(shapes)
    ]
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)


def test_results_have_the_strides_that_pytorch_says() -> None:
    """Of every call, a tensor without memory goes the same way, and shapes, types and strides are compared."""
    from torch._subclasses.fake_utils import CrossRefFakeMode

    block, x = Block(), tokens()
    image = torch.from_numpy(rapt.random_normal((2, 4, 6, 5), seed=4))
    last = image.contiguous(memory_format=torch.channels_last)
    weight = torch.from_numpy(rapt.random_normal((4, 4, 3, 3), seed=5))
    with torch.no_grad(), CrossRefFakeMode():
        block(x)
        for one in (image, last, image.transpose(1, 3), image[:, :, ::2], image[:, :0]):
            for function in (torch.exp, F.silu, F.gelu, torch.sigmoid, torch.sqrt, F.softplus, F.elu, torch.cumsum):
                function(one, 1) if function is torch.cumsum else function(one)
            for dim in (0, 1, 3):
                one.sum(dim), one.mean(dim, keepdim=True), one.softmax(dim), torch.linalg.vector_norm(one, dim=dim)
            one.var((0, 2)), one**2.5, torch.lerp(one, one, 0.3), torch.add(one, one, alpha=2)
            if one.shape[1] == 4:
                F.conv2d(one, weight), F.conv2d(one, weight, padding=1), F.conv_transpose2d(one, weight)
                F.group_norm(one, 2), F.batch_norm(one, None, None, training=True), F.layer_norm(one, one.shape[1:])
                F.interpolate(one, scale_factor=2.0, mode="bilinear")


def test_out_is_resized() -> None:
    x, w = tokens()[0], torch.ones(16, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's of an out with other elements
        for out in (torch.empty(0), torch.empty(7, 4), torch.empty(3)):
            assert torch.equal(torch.mm(x, w, out=out), x @ w) and out.shape == (7, 4)
            assert torch.equal(torch.exp(x, out=torch.empty(0)), x.exp())
            assert torch.equal(torch.sum(x, 0, out=torch.empty(0)), x.sum(0))


def run_here(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> Any:
    command = [sys.executable, *command]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


CHILD = """
import multiprocessing, sys
import torch, torch.nn.functional as F

def bits(seed):
    x = torch.arange(40.0).reshape(4, 10).mul(seed / 7).sin()
    with torch.no_grad():
        return (F.gelu(F.linear(x, x.flip(0))).softmax(-1) * 4).exp().tolist()

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return torch.tensor(bits(i + 1))

def main():
    expected = [bits(i + 1) for i in range(4)]
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(bits, range(1, 5)) == expected, method
        loader = torch.utils.data.DataLoader(Rows(), num_workers=2, multiprocessing_context=method)
        assert [one[0].tolist() for one in loader] == torch.tensor(expected).tolist(), method
    import rapt.torch
    assert rapt.torch.report().replaced["gelu"] == 4
    print(expected[0][0][0].hex())

if __name__ == "__main__":
    main()
"""


def starting_with_rapt(folder: Path, **variables: str) -> dict[str, str]:
    """An environment whose Python processes read rapt.pth, as those of an installed wheel do."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(f"import site; site.addsitedir({str(SOURCES)!r})")
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, **variables}


@pytest.mark.skipif("RAPT_WHEEL" in os.environ, reason="rapt.pth is where Python reads it")
@pytest.mark.parametrize("enabled", ["python"], indirect=True)
def test_children_do_as_their_parent(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(CHILD)

    def run(name: str, *command: str, **variables: str) -> Any:
        environment = starting_with_rapt(tmp_path / name, **variables)
        return run_here([*command], tmp_path, environment)

    expected = run("variable", "child.py", RAPT_TORCH="strict")
    assert expected.returncode == 0 and expected.stdout, expected.stderr
    for name, variables in (("command", {}), ("both", {"RAPT_TORCH": "strict"})):
        by_command = run(name, "-m", "rapt.torch", "--strict", "child.py", **variables)
        assert (by_command.returncode, by_command.stdout) == (0, expected.stdout), by_command.stderr
    imported = "import torch, rapt.torch; torch.ones(2).exp(); print(rapt.torch.report().replaced)"
    assert run("first", "-c", imported, RAPT_TORCH="1").stdout == "{'exp': 1}\n"
    last = run("last", "-c", imported.replace("torch, rapt.torch", "rapt.torch, torch"), RAPT_TORCH="1")
    assert last.stdout == "{'exp': 1}\n", last.stderr
    # As transformers does, before it imports PyTorch.
    sought = "import importlib.util; print(importlib.util.find_spec('torch').loader.is_package('torch'));" + imported
    assert run("sought", "-c", sought, RAPT_TORCH="1").stdout == "True\n{'exp': 1}\n"
    assert run("off", "-c", imported, RAPT_TORCH="0").stdout == "{}\n"
    assert "RAPT_TORCH is 'yes', not 1, strict or 0" in run("wrong", "-c", "", RAPT_TORCH="yes").stderr


DISTRIBUTED = """
import os, sys
import torch, torch.distributed as dist, torch.multiprocessing as mp
import rapt.torch

def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(12, 8), torch.nn.GELU(), torch.nn.Linear(8, 3))

def work(rank, port, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    with rapt.torch.enabled(strict=True):
        dist.init_process_group("gloo", rank=rank, world_size=2)
        one = torch.nn.parallel.DistributedDataParallel(model())
        x = torch.arange(96.0).reshape(2, 4, 12).sin()
        one(x[rank]).square().sum().backward()
        local = model()
        apart = []
        for part in x:
            local.zero_grad()
            local(part).square().sum().backward()
            apart.append([p.grad.clone() for p in local.parameters()])
        for p, a, b in zip(one.parameters(), *apart):
            assert torch.equal(p.grad, a / 2 + b / 2)
        results[rank] = rapt.torch.hash(one)
        dist.destroy_process_group()

if __name__ == "__main__":
    results = mp.get_context("spawn").Manager().dict()
    mp.spawn(work, args=(int(sys.argv[1]), results), nprocs=2)
    assert results[0] == results[1]
"""


RANK = """
import torch, torch.distributed as dist
import rapt.torch

dist.init_process_group("gloo")
torch.manual_seed(1)
layer = torch.nn.Sequential(torch.nn.Linear(12, 8), torch.nn.GELU(), torch.nn.Linear(8, 3))
one = torch.nn.parallel.DistributedDataParallel(layer)
one(torch.arange(48.0).reshape(4, 12).sin() + dist.get_rank()).square().sum().backward()
assert rapt.torch.report().replaced["gelu"] == 1
with open(f"gradients{dist.get_rank()}", "w") as file:
    print(rapt.torch.hash([p.grad for p in layer.parameters()]), file=file)
dist.destroy_process_group()
"""


@pytest.mark.skipif("RAPT_WHEEL" in os.environ, reason="rapt.pth is where Python reads it")
@pytest.mark.parametrize("enabled", ["python"], indirect=True)
def test_processes_of_torchrun(tmp_path: Path) -> None:
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    (tmp_path / "rank.py").write_text(RANK)
    environment = starting_with_rapt(tmp_path / "start", RAPT_TORCH="strict")
    done = run_here(
        ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "rank.py"], tmp_path, environment
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "gradients0").read_text() == (tmp_path / "gradients1").read_text()


@pytest.mark.parametrize("enabled", ["python"], indirect=True)
def test_distributed_data_parallel_adds_up_local_gradients(tmp_path: Path) -> None:
    import socket

    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    (tmp_path / "ddp.py").write_text(DISTRIBUTED)
    done = run_here(["ddp.py", str(port)], tmp_path)
    assert done.returncode == 0, done.stderr
