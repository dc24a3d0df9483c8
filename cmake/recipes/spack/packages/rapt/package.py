"""Spack, next to a checkout: spack repo add cmake/recipes/spack && spack dev-build rapt@0.3.0

+shared builds librapt.so, ~validate leaves rapt-validate out.
"""

from spack.package import *

try:  # Spack 1; before, spack.package has it
    from spack_repo.builtin.build_systems.cmake import CMakePackage
except ImportError:
    pass


class Rapt(CMakePackage):
    """CPU kernels for attention, with the same bits on every instruction set."""

    license("Apache-2.0")
    version("0.3.0")

    variant("shared", default=False, description="Build librapt.so")
    variant("validate", default=True, description="Build rapt-validate, which checks the library on a CPU")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("xsimd@8.1:14", type="build")
    with when("+validate"):
        depends_on("cli11", type="build")
        depends_on("nlohmann-json", type="build")
        depends_on("fmt", type="build")
    conflicts("%gcc@:11", msg="rapt needs gcc 12 or clang 14")

    def cmake_args(self):
        return [
            self.define("RAPT_FETCH_XSIMD", False),
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
            self.define_from_variant("RAPT_BUILD_VALIDATE", "validate"),
        ]

    def test_published_bits(self):
        """rapt-validate finds the published bits on this CPU"""
        if self.spec.satisfies("~validate"):
            raise SkipTest("rapt-validate is left out")
        Executable(self.prefix.bin.join("rapt-validate"))("--quick")
