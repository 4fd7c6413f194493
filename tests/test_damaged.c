/*
 * Files of runs, sweeps and searches of which one part is damaged: each part in each way. A reader
 * either does without it or says which file is damaged; what it may do without is written down.
 */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/output/compare.h"
#include "sim/output/h5_items.h"
#include "sim/output/hdf5.h"
#include "sim/output/log.h"
#include "sim/plan/fault_plan.h"
#include "sim/plan/simulate.h"
#include "sim/report/points.h"
#include "sim/report/report.h"
#include "tests/check.h"
#include "tests/points_file.h"

enum { PARTS_MAX = 400 };

/* ---- the parts of a file ---- */

struct part {
    char object[96], attribute[64]; /* attribute: "" is the object itself */
    bool is_dataset;
};

struct parts {
    struct part list[PARTS_MAX];
    int32_t count;
    char object[96]; /* whose attributes are listed */
};

static herr_t take_attribute(hid_t at, const char *name, const H5A_info_t *info, void *context)
{
    struct parts *parts = context;
    (void)at;
    (void)info;
    if (parts->count < PARTS_MAX) {
        struct part *part = &parts->list[parts->count++];
        *part = (struct part){0};
        snprintf(part->object, sizeof part->object, "%s", parts->object);
        snprintf(part->attribute, sizeof part->attribute, "%s", name);
    }
    return 0;
}

static herr_t take_object(hid_t file, const char *name, const H5O_info_t *info, void *context)
{
    struct parts *parts = context;
    snprintf(parts->object, sizeof parts->object, "%s", strcmp(name, ".") == 0 ? "/" : name);
    if (parts->count < PARTS_MAX && strcmp(name, ".") != 0) {
        struct part *part = &parts->list[parts->count++];
        *part = (struct part){.is_dataset = info->type == H5O_TYPE_DATASET};
        snprintf(part->object, sizeof part->object, "%s", name);
    }
    hid_t object = H5Oopen(file, name, H5P_DEFAULT);
    H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, NULL, take_attribute, parts);
    H5Oclose(object);
    return 0;
}

static void list_parts(const char *path, struct parts *parts)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    parts->count = 0;
    CHECK(H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, take_object, parts, H5O_INFO_BASIC) >= 0);
    CHECK_NOTE(parts->count < PARTS_MAX, "room for all parts");
    H5Fclose(file);
}

/* ---- damage ---- */

enum damage { GONE, TEXT, NUMBER, LONGER, EMPTY, GROUP, DAMAGES };

static const char *const damage_names[DAMAGES] = {
    "gone", "a text", "one number", "of another length", "empty", "a group"};

static void put_dataset(hid_t file, const char *name, enum damage damage)
{
    hsize_t count = damage == LONGER ? 7777 : 0;
    hid_t space = damage == LONGER || damage == EMPTY ? H5Screate_simple(1, &count, NULL)
                                                      : H5Screate(H5S_SCALAR);
    hid_t type = damage == TEXT ? H5Tcopy(H5T_C_S1) : H5Tcopy(H5T_NATIVE_DOUBLE);
    hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const double zeros[7777] = {0};
    if (damage != EMPTY)
        CHECK(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros) >= 0);
    H5Dclose(dataset);
    H5Tclose(type);
    H5Sclose(space);
}

static void put_attribute(hid_t file, const struct part *part, enum damage damage)
{
    static const char zeros[16] = {0};
    hsize_t count = 2;
    hid_t object = H5Oopen(file, part->object, H5P_DEFAULT);
    CHECK(H5Adelete(object, part->attribute) >= 0);
    hid_t space = damage == LONGER ? H5Screate_simple(1, &count, NULL) : H5Screate(H5S_SCALAR);
    hid_t type = damage == TEXT ? H5Tcopy(H5T_C_S1) : H5Tcopy(H5T_NATIVE_DOUBLE);
    if (damage != GONE) {
        hid_t attribute =
            H5Acreate2(object, part->attribute, type, space, H5P_DEFAULT, H5P_DEFAULT);
        CHECK(H5Awrite(attribute, type, zeros) >= 0);
        H5Aclose(attribute);
    }
    H5Tclose(type);
    H5Sclose(space);
    H5Oclose(object);
}

/* Whether there is such a damage of the part; then path is a copy of whole that has it. */
static bool make_damaged(const struct kvt_text *whole, const char *path, const struct part *part,
                         enum damage damage)
{
    struct kvt_err err = {0};
    bool is_attribute = part->attribute[0] != '\0';
    if (is_attribute ? damage == EMPTY || damage == GROUP : damage != GONE && !part->is_dataset)
        return false;
    CHECK_OK(kvt_file_write(path, whole->bytes, whole->count, &err), err);
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    if (is_attribute) {
        put_attribute(file, part, damage);
    } else {
        CHECK(H5Ldelete(file, part->object, H5P_DEFAULT) >= 0);
        if (damage == GROUP)
            H5Gclose(H5Gcreate2(file, part->object, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        else if (damage != GONE)
            put_dataset(file, part->object, damage);
    }
    H5Fclose(file);
    return true;
}

/* ---- readers ---- */

static enum kvt_status read_report(const char *path, struct kvt_err *err)
{
    static struct kvt_report report;
    char *text = NULL;
    size_t bytes = 0;
    enum kvt_status status = kvt_report_read(&report, path, NULL, 0, err);
    if (status == KVT_OK) {
        FILE *out = open_memstream(&text, &bytes);
        status = kvt_report_html(&report, out, err);
        fclose(out);
        CHECK_HOLDS(text, "</html>", path);
        free(text);
    }
    kvt_report_release(&report);
    return status;
}

static enum kvt_status read_comparison(const char *path, struct kvt_err *err)
{
    static struct kvt_comparison comparison;
    enum kvt_status status = kvt_comparison_init(&comparison, path, path, err);
    if (status == KVT_OK)
        CHECK_NOTE(comparison.equal, "a file equals itself");
    kvt_comparison_release(&comparison);
    return status;
}

static enum kvt_status read_points(const char *path, struct kvt_err *err)
{
    struct kvt_points_page page;
    char *text = NULL;
    size_t bytes = 0;
    enum kvt_status status = kvt_points_page_read(&page, path, err);
    if (status == KVT_OK) {
        FILE *out = open_memstream(&text, &bytes);
        status = kvt_points_page_html(&page, out, err);
        fclose(out);
        CHECK_HOLDS(text, "</html>", path);
        free(text);
    }
    kvt_points_page_release(&page);
    return status;
}

/* Whether the part is, or lies below, one that its reader needs: there a text or a group in place
 * of numbers is refused. */
static bool must_refuse(const char *const needed[], const struct part *part, enum damage damage)
{
    if (!part->is_dataset || (damage != TEXT && damage != GROUP))
        return false;
    for (; *needed != NULL; needed++)
        if (strncmp(part->object, *needed, strlen(*needed)) == 0)
            return true;
    return false;
}

/* Every damage of every part: refused with the file's name, or not missed. */
static void read_all(const char *whole_path,
                     enum kvt_status (*read)(const char *, struct kvt_err *),
                     const char *const needed[])
{
    int32_t refused = 0;
    static struct parts parts;
    char path[256];
    struct kvt_text whole;
    struct kvt_err err = {0};
    snprintf(path, sizeof path, "%s", check_temp("damaged.h5"));
    CHECK_OK(kvt_text_read(whole_path, (size_t)1 << 28, &whole, &err), err);
    CHECK_OK(read(whole_path, &err), err);
    list_parts(whole_path, &parts);
    for (int32_t i = 0; i < parts.count; i++)
        for (int damage = 0; damage < DAMAGES; damage++) {
            struct kvt_err why = {0};
            char note[256];
            if (!make_damaged(&whole, path, &parts.list[i], (enum damage)damage))
                continue;
            enum kvt_status status = read(path, &why);
            snprintf(note, sizeof note, "%s %s: %s", parts.list[i].object, parts.list[i].attribute,
                     damage_names[damage]);
            refused += status != KVT_OK;
            if (must_refuse(needed, &parts.list[i], (enum damage)damage))
                CHECK_NOTE(status != KVT_OK, note);
            if (status != KVT_OK) {
                CHECK_I64(status, KVT_ECONFIG, note);
                CHECK_NOTE(strncmp(why.text, path, strlen(path)) == 0, note);
            }
        }
    CHECK_NOTE(refused > 10, "damage is noticed");
    kvt_text_free(&whole);
    unlink(path);
}

/* ---- files ---- */

static void take(void *context, const struct kvt_decision *decision)
{
    kvt_decision_log_add(context, decision);
}

/* A crash, a late write, two roles, a link, an SLO: every part that a file of a run may have. */
static void write_run(const char *path)
{
    static struct kvt_config config;
    static struct kvt_simulation simulation;
    static struct kvt_result result;
    static struct kvt_summary summary;
    static struct kvt_strike strikes[KVT_STRIKES_MAX];
    static const char *const sets[] = {
        "workload={open: {rate: 4 req/s, requests: 12, input: 200, output: 20}}",
        "run.until=20 s",
        "faults={plan: [{fault: late-write, at: 1 s, amount: 0.5, delay: 1 s}]}",
    };
    struct kvt_err err = {0};
    struct kvt_arena arena;
    struct kvt_run_file file;
    struct kvt_decision_log log;
    struct kvt_simulate_options how = {.sink = take, .context = &log};
    CHECK_OK(kvt_config_load(&config, "configs/examples/quickstart.yaml", sets,
                             sizeof sets / sizeof *sets, &err),
             err);
    CHECK_OK(kvt_fault_plan(&config, strikes, &how.strike_count, &err), err);
    how.strikes = strikes;
    CHECK_OK(kvt_run_file_begin(&file, path, &err), err);
    CHECK_OK(kvt_decision_log_begin(&log, &file, NULL, &err), err);
    CHECK_OK(kvt_simulation_init(&simulation, &config, &how, &err), err);
    CHECK_OK(kvt_simulation_run(&simulation, &how, &err), err);
    CHECK_OK(kvt_simulation_result(&simulation, &result, &err), err);
    CHECK_OK(kvt_arena_init(&arena, (size_t)8 << 20, &err), err);
    CHECK_OK(kvt_summary_init(&summary, &result, &arena, &err), err);
    CHECK_OK(kvt_decision_log_finish(&log, &err), err);
    CHECK_OK(kvt_run_file_finish(&file, &summary, &err), err);
    kvt_arena_release(&arena);
    kvt_simulation_release(&simulation);
    kvt_config_release(&config);
}

static void a_damaged_run_is_refused_or_shown_without_the_part(void)
{
    static const char *const shown[] = {"requests/arrival", "requests/finish",
                                        "requests/fate",    "requests/input",
                                        "requests/output",  "histograms/ttft",
                                        "histograms/itl",   "link/",
                                        "series/decode-0/", NULL};
    char path[256];
    snprintf(path, sizeof path, "%s", check_temp("whole-run.h5"));
    write_run(path);
    read_all(path, read_report, shown);
    read_all(path, read_comparison, (const char *const[]){"decisions", NULL});
    unlink(path);
}

static void damaged_points_are_refused_or_shown_without_the_part(void)
{
    char path[256];
    snprintf(path, sizeof path, "%s", check_temp("whole-points.h5"));
    points_file_write(path, "sweep");
    read_all(path, read_points,
             (const char *const[]){"points/message", "metrics/p90_ttft_ms", NULL});
    points_file_write(path, "plan");
    read_all(path, read_points, (const char *const[]){"candidates/", "metrics/p90_ttft_ms", NULL});
    unlink(path);
}

const struct check_test check_damaged[] = {
    {.name = "a damaged run is refused or shown without the part",
     .run = a_damaged_run_is_refused_or_shown_without_the_part},
    {.name = "damaged points are refused or shown without the part",
     .run = damaged_points_are_refused_or_shown_without_the_part},
    {0},
};
