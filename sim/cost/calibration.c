#include "sim/cost/calibration.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/assert.h"
#include "sim/base/file.h"
#include "sim/base/spelling.h"
#include "sim/cost/calibration_file.h"
#include "sim/cost/calibration_kept.h"
#include "sim/cost/guess.h"
#include "sim/cost/surface.h"

#define CALIBRATION_BYTES_MAX ((size_t)4 << 20)

static enum kvt_status calibration_init(struct kvt_calibration *calibration, FILE *talk,
                                        struct kvt_err *err)
{
    *calibration = (struct kvt_calibration){.skew = 1.0, .talk = talk};
    calibration->laws = calloc(KVT_CALIBRATION_LAWS, sizeof *calibration->laws);
    calibration->said = calloc(KVT_CALIBRATION_LAWS, sizeof *calibration->said);
    if (calibration->laws != NULL && calibration->said != NULL)
        return KVT_OK;
    kvt_calibration_release(calibration);
    return kvt_err_set(err, KVT_ENOMEM, "no memory for a calibration");
}

void kvt_calibration_release(struct kvt_calibration *calibration)
{
    for (int32_t i = 0; calibration->laws != NULL && i < calibration->law_count; i++)
        kvt_surface_free(calibration->laws[i].surface);
    free(calibration->laws);
    free(calibration->said);
    *calibration = (struct kvt_calibration){0};
}

/* Append a guess for every family and sort by family, keeping the order within one. */
static void calibration_finish(struct kvt_calibration *calibration, const struct kvt_gpu *gpu)
{
    for (int f = 0; f < KVT_FAMILY_COUNT; f++)
        calibration->laws[calibration->law_count++] = kvt_law_guess((enum kvt_family)f, gpu);
    for (int32_t i = 1; i < calibration->law_count; i++) { /* insertion sort: stable, few */
        struct kvt_law law = calibration->laws[i];
        int32_t j = i;
        while (j > 0 && calibration->laws[j - 1].family > law.family) {
            calibration->laws[j] = calibration->laws[j - 1];
            j--;
        }
        calibration->laws[j] = law;
    }
    int32_t i = 0;
    for (int f = 0; f <= KVT_FAMILY_COUNT; f++) {
        while (i < calibration->law_count && (int)calibration->laws[i].family < f)
            i++;
        calibration->first[f] = i;
    }
}

enum kvt_status kvt_calibration_parse(struct kvt_calibration *calibration, const char *name,
                                      const char *text, size_t count, const struct kvt_gpu *gpu,
                                      FILE *talk, struct kvt_err *err)
{
    KVT_TRY(calibration_init(calibration, talk, err));
    enum kvt_status status = kvt_calibration_read(calibration, name, text, count, gpu, err);
    if (status != KVT_OK) {
        kvt_calibration_release(calibration);
        return status;
    }
    calibration_finish(calibration, gpu);
    return KVT_OK;
}

static enum kvt_status calibration_guess(struct kvt_calibration *calibration,
                                         const struct kvt_gpu *gpu, const char *stack, FILE *talk,
                                         struct kvt_err *err)
{
    KVT_TRY(calibration_init(calibration, talk, err));
    snprintf(calibration->name, sizeof calibration->name, "data-sheet");
    snprintf(calibration->gpu, sizeof calibration->gpu, "%.63s", gpu->name);
    snprintf(calibration->stack, sizeof calibration->stack, "%.31s", stack);
    calibration_finish(calibration, gpu);
    snprintf(calibration->source, sizeof calibration->source, "%s", calibration->laws[0].source);
    for (int32_t i = 0; i < calibration->law_count; i++)
        calibration->said[i] = true; /* said once for all of them: */
    if (talk != NULL)
        fprintf(talk,
                "kvtwin: warning: no calibration for %s under %s; step times are guesses from its "
                "data sheet\n",
                gpu->name, stack);
    return KVT_OK;
}

enum { PATH_BYTES = 4096 + 256 }; /* what is cut is the path of no file */

/* configs/calibrations/NAME.yaml in the data folder. */
static const char *shipped_path(const char *name, size_t name_bytes, const char *stack,
                                char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/configs/calibrations/%.*s%s%s.yaml", kvt_data_folder(),
             (int)name_bytes, name, stack[0] != '\0' ? "-" : "", stack);
    return path;
}

/* The shipped files are of SXM boards and named without saying so: h100-sxm reads h100-vllm.yaml,
 * while an h100-pcie, which is another machine, does not. */
static size_t board_bytes(const char *name)
{
    size_t bytes = strlen(name);
    return bytes > 4 && strcmp(name + bytes - 4, "-sxm") == 0 ? bytes - 4 : bytes;
}

/* The file that is meant by a shipped name, or by a path. */
static const char *named_path(const char *name_or_path, char path[PATH_BYTES])
{
    if (strchr(name_or_path, '/') != NULL || kvt_text_ends(name_or_path, ".yaml"))
        return name_or_path;
    return shipped_path(name_or_path, strlen(name_or_path), "", path);
}

bool kvt_calibration_is_there(const char *name_or_path)
{
    char path[PATH_BYTES];
    return access(named_path(name_or_path, path), F_OK) == 0;
}

bool kvt_calibration_is_shipped(const struct kvt_gpu *gpu, const char *stack)
{
    char path[PATH_BYTES];
    return access(shipped_path(gpu->name, board_bytes(gpu->name), stack, path), F_OK) == 0;
}

enum kvt_status kvt_calibration_load(struct kvt_calibration *calibration, const char *name_or_path,
                                     const struct kvt_gpu *gpu, const char *stack, FILE *talk,
                                     struct kvt_err *err)
{
    char shipped[PATH_BYTES];
    struct kvt_text text;
    if (gpu->bandwidth <= 0.0)
        return kvt_err_set(
            err, KVT_ECONFIG,
            "GPU \"%s\" is known by its memory only: it has no rates to simulate with", gpu->name);
    const char *path = name_or_path != NULL
                           ? named_path(name_or_path, shipped)
                           : shipped_path(gpu->name, board_bytes(gpu->name), stack, shipped);
    if (name_or_path == NULL && access(path, F_OK) != 0)
        return calibration_guess(calibration, gpu, stack, talk, err);
    enum kvt_status status = kvt_text_read(path, CALIBRATION_BYTES_MAX, &text, err);
    if (status == KVT_OK) {
        if (!kvt_calibration_from_kept(calibration, text.bytes, text.count, gpu, talk)) {
            status =
                kvt_calibration_parse(calibration, path, text.bytes, text.count, gpu, talk, err);
            if (status == KVT_OK)
                kvt_calibration_keep(calibration, text.bytes, text.count, gpu);
        }
        kvt_text_free(&text);
    }
    return status;
}

struct kvt_calibration kvt_calibration_with_errors(const struct kvt_calibration *calibration,
                                                   struct kvt_error_factors *errors)
{
    struct kvt_calibration view = *calibration;
    view.talk = NULL;
    view.errors = errors;
    return view;
}

void kvt_calibration_add(struct kvt_calibration *calibration, enum kvt_family family,
                         double seconds)
{
    for (int32_t i = calibration->first[family]; i < calibration->first[family + 1]; i++) {
        struct kvt_law *law = &calibration->laws[i];
        law->t0 += seconds;
        if (law->t0 < 0.0 && !kvt_family_is_gap(family))
            law->t0 = 0.0;
    }
}

const struct kvt_law *kvt_calibration_law(const struct kvt_calibration *calibration,
                                          enum kvt_family family, const struct kvt_work *work)
{
    int32_t last = calibration->first[family + 1] - 1; /* the guess: it admits everything */
    for (int32_t i = calibration->first[family]; i < last; i++)
        if (kvt_law_admits(&calibration->laws[i], work))
            return &calibration->laws[i];
    return &calibration->laws[last];
}

/* By how much a size lies outside the law's grid; batch-like sizes (m) vary all the time and are
 * left out. */
static double grid_factor(const struct kvt_law *law, const struct kvt_work *work, int *dim)
{
    double worst = 1.0;
    for (int d = 0; d < KVT_DIM_COUNT; d++) {
        const struct kvt_range *grid = &law->grid[d];
        if (grid->max <= 0.0 || work->dim[d] <= 0.0 || d == KVT_DIM_M)
            continue;
        double factor = work->dim[d] > grid->max   ? work->dim[d] / grid->max
                        : work->dim[d] < grid->min ? grid->min / work->dim[d]
                                                   : 1.0;
        if (factor > worst)
            worst = factor, *dim = d;
    }
    return worst;
}

double kvt_calibration_time(const struct kvt_calibration *calibration, const struct kvt_law *law,
                            const struct kvt_work *work, enum kvt_limit *limit)
{
    ptrdiff_t i = law - calibration->laws;
    kvt_assert(i >= 0 && i < calibration->law_count);
    if (calibration->talk != NULL && !calibration->said[i]) {
        int dim = 0;
        double factor = grid_factor(law, work, &dim);
        if ((law->guess && !law->published) || factor > 1.0) {
            calibration->said[i] = true;
            if (law->guess)
                fprintf(calibration->talk,
                        "kvtwin: warning: calibration %s has no law for %s of this size; %s\n",
                        calibration->name, kvt_family_names[law->family], law->source);
            else
                fprintf(calibration->talk,
                        "kvtwin: warning: %s: %s was measured at %s %.0f to %.0f; at %s %.0f it is "
                        "extrapolated\n",
                        calibration->name, kvt_family_names[law->family], kvt_dim_names[dim],
                        law->grid[dim].min, law->grid[dim].max, kvt_dim_names[dim], work->dim[dim]);
        }
    }
    double time = kvt_law_time(law, work, limit);
    return calibration->errors == NULL ? time
                                       : kvt_error_time(calibration->errors, law, work, time);
}
