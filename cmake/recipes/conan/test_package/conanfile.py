"""Builds the programs of tests/consumer with the package, and runs them."""

from pathlib import Path

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout


class RaptTest(ConanFile):
    settings = "os", "arch", "compiler", "build_type"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self, build_folder="../../../../build/conan")

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        toolchain.cache_variables["RAPT_VERSION"] = str(self.dependencies["rapt"].ref.version)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure(build_script_folder=Path(self.recipe_folder).parents[3] / "tests/consumer/find_package")
        cmake.build()

    def test(self):
        if can_run(self):
            for program in ("c_program", "cpp_program", "bits_program"):
                self.run(f"{self.cpp.build.bindir}/{program}", env="conanrun")
