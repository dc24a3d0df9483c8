"""Conan 2, beside a checkout: conan create cmake/recipes/conan"""

import re
from pathlib import Path

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy

ROOT = Path(__file__).resolve().parents[3]


class Rapt(ConanFile):
    name = "rapt"
    description = "CPU kernels for attention, with the same bits on every instruction set"
    license = "Apache-2.0"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "validate": [True, False]}
    default_options = {"shared": False, "validate": False}

    def set_version(self):
        header = (ROOT / "include/rapt/rapt.h").read_text()
        self.version = ".".join(re.findall(r"#define RAPT_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*", "tests/support/*", "tests/validate/*"):
            copy(self, pattern, ROOT, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def build_requirements(self):
        self.test_requires("xsimd/[>=9]")
        if self.options.validate:
            for requirement in ("cli11/[>=2]", "nlohmann_json/[>=3]", "fmt/[>=9]"):
                self.test_requires(requirement)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["RAPT_FETCH_XSIMD"] = False
        toolchain.cache_variables["RAPT_BUILD_VALIDATE"] = bool(self.options.validate)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "rapt")
        self.cpp_info.set_property("cmake_target_name", "rapt::rapt")
        self.cpp_info.set_property("pkg_config_name", "rapt")
        self.cpp_info.libs = ["rapt"]
        self.cpp_info.system_libs = ["m"]
