"""Conan 2, next to a checkout: conan create cmake/recipes/conan

-o "&:shared=True" builds librapt.so, -o "&:validate=True" rapt-validate too. The test package runs the programs of
tests/consumer.
"""

import re
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy
from conan.tools.scm import Version


class Rapt(ConanFile):
    name = "rapt"
    description = "CPU kernels for attention, with the same bits on every instruction set"
    license = "Apache-2.0"
    topics = ("attention", "softmax", "simd", "reproducibility")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    # No option fPIC, because the objects of librapt.a are always position-independent.
    options = {"shared": [True, False], "validate": [True, False]}
    default_options = {"shared": False, "validate": False}

    @property
    def _checkout(self):
        return Path(self.recipe_folder).parents[2]

    def set_version(self):
        header = (self._checkout / "include/rapt/rapt.h").read_text()
        self.version = ".".join(re.findall(r"#define RAPT_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))

    def export_sources(self):
        folders = (
            "cmake/*",
            "include/*",
            "src/*",
            "tests/examples/decoder.cpp",
            "tests/examples/decoder/*",
            "tests/oracle/*",
            "tests/calls/*",
            "tests/support/*",
            "tests/validate/*",
        )
        for pattern in ("CMakeLists.txt", "LICENSE", *folders):
            copy(self, pattern, self._checkout, self.export_sources_folder, excludes="cmake/recipes/*")

    def configure(self):
        # The interface is C, and the library links no C++ runtime: one package serves every C++ of its users.
        self.settings.rm_safe("compiler.cppstd")
        self.settings.rm_safe("compiler.libcxx")

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("rapt is for Linux")
        oldest = {"gcc": "12", "clang": "14"}.get(str(self.settings.compiler))
        if oldest is None or Version(self.settings.compiler.version) < oldest:
            raise ConanInvalidConfiguration("rapt needs gcc 12 or clang 14")

    def layout(self):
        cmake_layout(self)

    def build_requirements(self):
        # Headers that the users of the package do not need.
        self.test_requires("xsimd/[>=8.1]")
        if self.options.validate:
            for requirement in ("cli11/[>=2]", "nlohmann_json/[>=3]", "fmt/[>=9]"):
                self.test_requires(requirement)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["RAPT_FETCH_XSIMD"] = False
        toolchain.cache_variables["RAPT_BUILD_VALIDATE"] = bool(self.options.validate)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")
        CMake(self).install()

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "rapt")
        self.cpp_info.set_property("cmake_target_name", "rapt::rapt")
        self.cpp_info.set_property("pkg_config_name", "rapt")
        self.cpp_info.libs = ["rapt"]
        if not self.options.shared:
            self.cpp_info.system_libs = ["m"]
