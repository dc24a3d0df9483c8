# An overlay port in a checkout: vcpkg install rapt --overlay-ports=cmake/recipes/vcpkg
#
# It builds no rapt-validate. The triplet chooses librapt.a or librapt.so. vcpkg only watches the port: after a change
# of the checkout, run vcpkg remove rapt, and install with --no-binarycaching.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS -DRAPT_FETCH_XSIMD=OFF -DRAPT_BUILD_VALIDATE=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME rapt CONFIG_PATH lib/cmake/rapt)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share" "${CURRENT_PACKAGES_DIR}/share/doc")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
