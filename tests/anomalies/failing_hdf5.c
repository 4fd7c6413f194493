/*
 * failing_hdf5.c - the Nth call of HDF5 by the program fails (KVT_FAIL=h5:N; failing.c)
 *
 * For a program that is linked with the shared HDF5. A call that fails does nothing and returns a
 * negative number; one that closes closes.
 */
#define _GNU_SOURCE
#include <hdf5.h>

#include "tests/anomalies/failing.h"

#define CALL(type, name, parameters, arguments)                                                    \
    type name parameters                                                                           \
    {                                                                                              \
        return fails("h5") ? (type)-1 : NEXT(name) arguments;                                      \
    }
#define CLOSE(name)                                                                                \
    herr_t name(hid_t id)                                                                          \
    {                                                                                              \
        herr_t result = NEXT(name)(id);                                                            \
        return fails("h5") ? -1 : result;                                                          \
    }

CALL(hid_t, H5Fcreate, (const char *a, unsigned b, hid_t c, hid_t d), (a, b, c, d))
CALL(hid_t, H5Fopen, (const char *a, unsigned b, hid_t c), (a, b, c))
CALL(htri_t, H5Fis_hdf5, (const char *a), (a))
CALL(hid_t, H5Gcreate2, (hid_t a, const char *b, hid_t c, hid_t d, hid_t e), (a, b, c, d, e))
CALL(hid_t, H5Gopen2, (hid_t a, const char *b, hid_t c), (a, b, c))
CALL(htri_t, H5Lexists, (hid_t a, const char *b, hid_t c), (a, b, c))
CALL(hid_t, H5Acreate2, (hid_t a, const char *b, hid_t c, hid_t d, hid_t e, hid_t f),
     (a, b, c, d, e, f))
CALL(hid_t, H5Aopen, (hid_t a, const char *b, hid_t c), (a, b, c))
CALL(hid_t, H5Aopen_by_name, (hid_t a, const char *b, const char *c, hid_t d, hid_t e),
     (a, b, c, d, e))
CALL(htri_t, H5Aexists_by_name, (hid_t a, const char *b, const char *c, hid_t d), (a, b, c, d))
CALL(herr_t, H5Aread, (hid_t a, hid_t b, void *c), (a, b, c))
CALL(herr_t, H5Awrite, (hid_t a, hid_t b, const void *c), (a, b, c))
CALL(hid_t, H5Aget_space, (hid_t a), (a))
CALL(hid_t, H5Aget_type, (hid_t a), (a))
CALL(herr_t, H5Aiterate2,
     (hid_t a, H5_index_t b, H5_iter_order_t c, hsize_t *d, H5A_operator2_t e, void *f),
     (a, b, c, d, e, f))
CALL(hid_t, H5Dcreate2, (hid_t a, const char *b, hid_t c, hid_t d, hid_t e, hid_t f, hid_t g),
     (a, b, c, d, e, f, g))
CALL(hid_t, H5Dopen2, (hid_t a, const char *b, hid_t c), (a, b, c))
CALL(herr_t, H5Dread, (hid_t a, hid_t b, hid_t c, hid_t d, hid_t e, void *f), (a, b, c, d, e, f))
CALL(herr_t, H5Dwrite, (hid_t a, hid_t b, hid_t c, hid_t d, hid_t e, const void *f),
     (a, b, c, d, e, f))
CALL(herr_t, H5Dset_extent, (hid_t a, const hsize_t b[]), (a, b))
CALL(hid_t, H5Dget_space, (hid_t a), (a))
CALL(hid_t, H5Dget_type, (hid_t a), (a))
CALL(hid_t, H5Pcreate, (hid_t a), (a))
CALL(herr_t, H5Pset_chunk, (hid_t a, int b, const hsize_t c[]), (a, b, c))
CALL(herr_t, H5Pset_driver, (hid_t a, hid_t b, const void *c), (a, b, c))
CALL(herr_t, H5Pset_fclose_degree, (hid_t a, H5F_close_degree_t b), (a, b))
CALL(herr_t, H5Pset_libver_bounds, (hid_t a, H5F_libver_t b, H5F_libver_t c), (a, b, c))
CALL(herr_t, H5Pset_obj_track_times, (hid_t a, hbool_t b), (a, b))
CALL(herr_t, H5Pset_attr_creation_order, (hid_t a, unsigned b), (a, b))
CALL(herr_t, H5Pset_attr_phase_change, (hid_t a, unsigned b, unsigned c), (a, b, c))
CALL(hid_t, H5FDregister, (const H5FD_class_t *a), (a))
CALL(hid_t, H5Screate, (H5S_class_t a), (a))
CALL(hid_t, H5Screate_simple, (int a, const hsize_t b[], const hsize_t c[]), (a, b, c))
CALL(herr_t, H5Sselect_hyperslab,
     (hid_t a, H5S_seloper_t b, const hsize_t c[], const hsize_t d[], const hsize_t e[],
      const hsize_t f[]),
     (a, b, c, d, e, f))
CALL(hssize_t, H5Sget_simple_extent_npoints, (hid_t a), (a))
CALL(int, H5Sget_simple_extent_ndims, (hid_t a), (a))
CALL(hid_t, H5Tcreate, (H5T_class_t a, size_t b), (a, b))
CALL(hid_t, H5Tcopy, (hid_t a), (a))
CALL(herr_t, H5Tinsert, (hid_t a, const char *b, size_t c, hid_t d), (a, b, c, d))
CALL(herr_t, H5Tset_size, (hid_t a, size_t b), (a, b))
CALL(herr_t, H5Tset_cset, (hid_t a, H5T_cset_t b), (a, b))
CALL(htri_t, H5Tequal, (hid_t a, hid_t b), (a, b))
CALL(H5T_class_t, H5Tget_class, (hid_t a), (a))
CALL(htri_t, H5Tis_variable_str, (hid_t a), (a))
CLOSE(H5Aclose)
CLOSE(H5Dclose)
CLOSE(H5Fclose)
CLOSE(H5Gclose)
CLOSE(H5Pclose)
CLOSE(H5Sclose)
CLOSE(H5Tclose)
