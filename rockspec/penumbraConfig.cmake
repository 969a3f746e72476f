# penumbraConfig.cmake: find_package(penumbra) defines penumbra::penumbra, the shared library, and penumbra::static, the
# archive with all that it needs, which pkg-config finds.
add_library(penumbra::penumbra SHARED IMPORTED)
set_target_properties(penumbra::penumbra PROPERTIES
  IMPORTED_LOCATION "@LIBDIR@/libpenumbra.so" IMPORTED_SONAME libpenumbra.so.0
  INTERFACE_INCLUDE_DIRECTORIES "@PREFIX@/include")

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  string(REPLACE " " ";" penumbra_packages "@PACKAGES@")
  pkg_check_modules(penumbra_needs QUIET IMPORTED_TARGET ${penumbra_packages})
  if(penumbra_needs_FOUND)
    add_library(penumbra::static STATIC IMPORTED)
    set_target_properties(penumbra::static PROPERTIES
      IMPORTED_LOCATION "@LIBDIR@/libpenumbra.a" INTERFACE_INCLUDE_DIRECTORIES "@PREFIX@/include"
      INTERFACE_LINK_LIBRARIES "PkgConfig::penumbra_needs;m;pthread;dl")
  endif()
endif()
