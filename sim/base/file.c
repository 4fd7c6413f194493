#define _GNU_SOURCE /* realpath, readlink, flock, fopencookie */
#include "sim/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "sim/base/assert.h"
#include "sim/base/spelling.h"

/* ---- who reads and writes ---------------------------------------------------------------- */

#define TEMP_END    ".tmp.kvtwin"
#define OUTPUTS_MAX 16
static char *open_temps[OUTPUTS_MAX]; /* borrowed from the kvt_output that owns them */

static void temps_replace(char *old, char *new)
{
    for (int i = 0; i < OUTPUTS_MAX; i++) {
        if (open_temps[i] == old) {
            open_temps[i] = new;
            return;
        }
    }
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* ---- inputs that are no outputs ------------------------------------------------------------- */

#define INPUTS_MAX 256 /* of which later ones are not guarded */
static pthread_mutex_t inputs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct stat inputs[INPUTS_MAX];
static int input_count;
static bool guards_inputs;

void kvt_inputs_guard(bool on)
{
    guards_inputs = on;
    input_count = 0;
}

static bool is_input(const struct stat *info)
{
    bool found = false;
    pthread_mutex_lock(&inputs_lock);
    for (int i = 0; i < input_count && !found; i++)
        found = is_same(info, &inputs[i]);
    pthread_mutex_unlock(&inputs_lock);
    return found;
}

/* Whether an output on its way will be put in the place of this file. */
static bool is_output(const struct stat *info)
{
    struct stat other;
    char path[PATH_MAX];
    for (int i = 0; guards_inputs && i < OUTPUTS_MAX; i++) {
        size_t bytes = open_temps[i] != NULL ? strlen(open_temps[i]) - strlen(TEMP_END) : 0;
        if (bytes == 0 || bytes >= sizeof path)
            continue;
        memcpy(path, open_temps[i], bytes);
        path[bytes] = '\0';
        if (stat(path, &other) == 0 && is_same(info, &other))
            return true;
    }
    return false;
}

static void keep_input(const struct stat *info)
{
    if (!guards_inputs || !S_ISREG(info->st_mode) || is_input(info))
        return;
    pthread_mutex_lock(&inputs_lock);
    if (input_count < INPUTS_MAX)
        inputs[input_count++] = *info;
    pthread_mutex_unlock(&inputs_lock);
}

/* ---- texts -------------------------------------------------------------------------------- */

/* What a file begins with that is no text, if it does: the byte order mark of UTF-8. */
static size_t drop_mark(char *bytes, size_t count)
{
    if (count < 3 || memcmp(bytes, "\xef\xbb\xbf", 3) != 0)
        return count;
    memmove(bytes, bytes + 3, count - 3);
    return count - 3;
}

/* All that file has, which is closed; room: bytes that are expected. */
static enum kvt_status read_all(gzFile file, struct kvt_where where, size_t room, size_t limit,
                                struct kvt_text *text, struct kvt_err *err)
{
    size_t used = 0;
    if (room < 4096)
        room = 4096;
    if (room > limit + 1)
        room = limit + 1;
    char *bytes = malloc(room + 1);
    enum kvt_status status = KVT_OK;
    while (bytes != NULL) {
        unsigned want = room - used > 1u << 30 ? 1u << 30 : (unsigned)(room - used);
        int got = gzread(file, bytes + used, want);
        if (got < 0) {
            int code;
            const char *why = gzerror(file, &code);
            status = kvt_err_at(err, code == Z_MEM_ERROR ? KVT_ENOMEM : KVT_EIO, where,
                                "cannot read: %s", why);
            break;
        }
        used += (size_t)got;
        if (got == 0)
            break;
        if (used > limit) {
            status =
                kvt_err_at(err, KVT_ELIMIT, where, "is larger than the limit of %zu bytes", limit);
            break;
        }
        if (used < room)
            continue;
        room = room > limit / 2 ? limit + 1 : room * 2;
        char *grown = realloc(bytes, room + 1);
        if (grown == NULL)
            free(bytes);
        bytes = grown;
    }
    int closed = gzclose(file);
    if (bytes == NULL)
        return kvt_err_at(err, KVT_ENOMEM, where, "no memory to read it");
    if (status == KVT_OK && closed == Z_BUF_ERROR)
        status = kvt_err_at(err, KVT_EIO, where, "the gzip stream ends early");
    if (status != KVT_OK) {
        free(bytes);
        return status;
    }
    used = drop_mark(bytes, used);
    bytes[used] = '\0';
    *text = (struct kvt_text){.bytes = bytes, .count = used};
    return KVT_OK;
}

enum kvt_status kvt_text_read(const char *path, size_t limit, struct kvt_text *text,
                              struct kvt_err *err)
{
    struct stat info;
    struct kvt_where where = {.file = path};
    if (stat(path, &info) != 0)
        return kvt_err_at(err, KVT_EIO, where, "cannot open: %s", strerror(errno));
    if (S_ISDIR(info.st_mode))
        return kvt_err_at(err, KVT_EIO, where, "want a file, got a folder");
    if (is_output(&info))
        return kvt_err_at(err, KVT_EUSAGE, where,
                          "is an output of this run too: want another file");
    keep_input(&info);
    errno = ENOMEM;                   /* what gzopen lacks where it sets no errno */
    gzFile file = gzopen(path, "rb"); /* reads plain files as they are */
    if (file == NULL)
        return kvt_err_at(err, errno == ENOMEM ? KVT_ENOMEM : KVT_EIO, where, "cannot open: %s",
                          strerror(errno));
    return read_all(file, where, (size_t)info.st_size + 1, limit, text, err);
}

enum kvt_status kvt_stdin_read(size_t limit, struct kvt_text *text, struct kvt_err *err)
{
    struct kvt_where where = {.file = "stdin"};
    int own = dup(STDIN_FILENO);
    if (own < 0)
        return kvt_err_at(err, KVT_EIO, where, "cannot read: %s", strerror(errno));
    gzFile file = gzdopen(own, "rb");
    if (file == NULL) {
        close(own);
        return kvt_err_at(err, KVT_ENOMEM, where, "no memory to read it");
    }
    return read_all(file, where, 0, limit, text, err);
}

void kvt_text_free(struct kvt_text *text)
{
    free(text->bytes);
    *text = (struct kvt_text){0};
}

/* Why nothing can be put in the place of path; NULL: it can. Renaming over a link would replace the
 * link (of /dev/stdout, even as root), and over an open standard stream would lose what it gets. */
static const char *obstacle(const char *path)
{
    struct stat info, other;
    if (lstat(path, &info) != 0)
        return NULL;
    if (stat(path, &info) != 0)
        return "it is a link to nothing";
    if (S_ISDIR(info.st_mode))
        return "it is a folder";
    if (!S_ISREG(info.st_mode))
        return "it exists and is not a plain file";
    for (int stream = 1; stream <= 2; stream++)
        if (fstat(stream, &other) == 0 && is_same(&info, &other))
            return stream == 1 ? "it is standard output" : "it is standard error";
    return NULL;
}

/* Whether another output of this program is being written under the same temporary name. */
static bool is_taken(const char *temp_path)
{
    struct stat info, other;
    if (stat(temp_path, &info) != 0)
        return false;
    for (int i = 0; i < OUTPUTS_MAX; i++)
        if (open_temps[i] != NULL && stat(open_temps[i], &other) == 0 && is_same(&info, &other))
            return true;
    return false;
}

/* Open the temporary and lock it. The file that was locked may meanwhile have got its final name,
 * or be gone; then the next one is tried. Returns why not, or NULL. */
static const char *temp_lock(struct kvt_output *output)
{
    struct stat mine, named;
    for (int turn = 0; turn < 8; turn++) {
        output->lock = open(output->temp_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (output->lock < 0)
            return strerror(errno);
        bool refused = flock(output->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (!refused && fstat(output->lock, &mine) == 0 && stat(output->temp_path, &named) == 0 &&
            is_same(&mine, &named)) {
            if (ftruncate(output->lock, 0) == 0)
                return NULL;
            int code = errno;
            unlink(output->temp_path);
            close(output->lock);
            return strerror(code);
        }
        close(output->lock);
        if (refused)
            break;
    }
    return "another run writes it";
}

static enum kvt_status temp_make(struct kvt_output *output, struct kvt_where where,
                                 struct kvt_err *err)
{
    struct stat info;
    if (stat(output->path, &info) == 0 && is_input(&info))
        return kvt_err_at(err, KVT_EUSAGE, where, "is an input of this run: want another file");
    const char *why = obstacle(output->path);
    if (why == NULL && is_taken(output->temp_path))
        why = "it is another output of this run";
    if (why == NULL)
        why = temp_lock(output);
    return why == NULL ? KVT_OK : kvt_err_at(err, KVT_EIO, where, "cannot write: %s", why);
}

enum kvt_status kvt_output_begin(struct kvt_output *output, const char *path, struct kvt_err *err)
{
    struct kvt_where where = {.file = path};
    struct stat info;
    bool is_link = lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
    char *target = is_link ? realpath(path, NULL) : NULL; /* the link stays */
    const char *name = target != NULL ? target : path;
    size_t bytes = strlen(name) + 32;
    *output = (struct kvt_output){.path = malloc(bytes), .temp_path = malloc(bytes)};
    enum kvt_status status = KVT_OK;
    if (output->path == NULL || output->temp_path == NULL) {
        status = kvt_err_at(err, KVT_ENOMEM, where, "no memory for its name");
    } else {
        snprintf(output->path, bytes, "%s", name);
        snprintf(output->temp_path, bytes, "%s" TEMP_END, name);
        status = temp_make(output, where, err);
    }
    free(target);
    if (status != KVT_OK) {
        free(output->temp_path); /* not made by us: do not unlink it */
        output->temp_path = NULL;
        kvt_output_abandon(output);
        return status;
    }
    temps_replace(NULL, output->temp_path);
    return KVT_OK;
}

FILE *kvt_output_stream(struct kvt_output *output, struct kvt_err *err)
{
    kvt_assert(output->temp_path != NULL);
    int file = dup(output->lock);
    output->stream = file >= 0 ? fdopen(file, "w") : NULL;
    if (output->stream != NULL)
        return output->stream;
    kvt_output_failed(output, err);
    if (file >= 0)
        close(file);
    return NULL;
}

enum kvt_status kvt_output_failed(const struct kvt_output *output, struct kvt_err *err)
{
    return kvt_err_at(err, KVT_EIO, (struct kvt_where){.file = output->path}, "cannot write: %s",
                      strerror(errno != 0 ? errno : EIO));
}

/* Whether all that was written has left the stream; errno says why not. */
static bool stream_close(struct kvt_output *output)
{
    if (output->stream == NULL)
        return true;
    bool whole = ferror(output->stream) == 0;
    int code = whole ? 0 : errno;
    errno = 0;
    whole = fclose(output->stream) == 0 && whole;
    output->stream = NULL;
    errno = errno != 0 ? errno : code;
    return whole;
}

enum kvt_status kvt_output_commit(struct kvt_output *output, struct kvt_err *err)
{
    kvt_assert(output->temp_path != NULL);
    enum kvt_status status = KVT_OK;
    if (!stream_close(output) || fsync(output->lock) != 0 ||
        rename(output->temp_path, output->path) != 0) {
        status = kvt_output_failed(output, err);
    } else {
        temps_replace(output->temp_path, NULL);
        free(output->temp_path);
        output->temp_path = NULL;
        close(output->lock);
    }
    kvt_output_abandon(output);
    return status;
}

void kvt_output_abandon(struct kvt_output *output)
{
    if (output->stream != NULL)
        fclose(output->stream);
    if (output->temp_path != NULL) {
        unlink(output->temp_path);
        temps_replace(output->temp_path, NULL);
        close(output->lock);
    }
    free(output->temp_path);
    free(output->path);
    *output = (struct kvt_output){0};
}

void kvt_output_abandon_all(void)
{
    for (int i = 0; i < OUTPUTS_MAX; i++)
        if (open_temps[i] != NULL)
            unlink(open_temps[i]);
}

enum kvt_status kvt_output_open(struct kvt_output *output, const char *path, FILE **stream,
                                struct kvt_err *err)
{
    *stream = NULL;
    KVT_TRY(kvt_output_begin(output, path, err));
    *stream = kvt_output_stream(output, err);
    if (*stream == NULL)
        kvt_output_abandon(output);
    return *stream != NULL ? KVT_OK : KVT_EIO;
}

/* ---- texts in memory ---------------------------------------------------------------------- */

/* Borrowed, but for itself. */
struct memory {
    char **text;
    size_t *count, room;
};

static ssize_t memory_write(void *cookie, const char *bytes, size_t count)
{
    struct memory *memory = cookie;
    size_t whole = *memory->count + count;
    if (whole >= memory->room) {
        char *grown = realloc(*memory->text, 2 * whole);
        if (grown == NULL)
            return 0; /* which marks the stream */
        *memory->text = grown;
        memory->room = 2 * whole;
    }
    memcpy(*memory->text + *memory->count, bytes, count);
    (*memory->text)[whole] = '\0';
    *memory->count = whole;
    return (ssize_t)count;
}

static int memory_end(void *cookie)
{
    free(cookie);
    return 0;
}

FILE *kvt_memory_open(char **text, size_t *count)
{
    const cookie_io_functions_t functions = {.write = memory_write, .close = memory_end};
    struct memory *memory = malloc(sizeof *memory);
    FILE *file = NULL;
    *text = calloc(1, 1);
    *count = 0;
    if (memory != NULL && *text != NULL) {
        *memory = (struct memory){.text = text, .count = count, .room = 1};
        file = fopencookie(memory, "w", functions);
    }
    if (file != NULL)
        return file;
    free(memory);
    free(*text);
    *text = NULL;
    return NULL;
}

bool kvt_memory_close(FILE *memory, char **text)
{
    bool whole = fflush(memory) == 0 && ferror(memory) == 0;
    if (fclose(memory) == 0 && whole)
        return true;
    free(*text);
    *text = NULL;
    return false;
}

enum kvt_status kvt_file_write(const char *path, const char *text, size_t count,
                               struct kvt_err *err)
{
    struct kvt_output output;
    FILE *file;
    KVT_TRY(kvt_output_open(&output, path, &file, err));
    fwrite(text, 1, count, file);
    return kvt_output_commit(&output, err);
}

char *kvt_path_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t count = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    char *folder = malloc(count + 1);
    if (folder != NULL) {
        memcpy(folder, path, count);
        folder[count] = '\0';
    }
    return folder;
}

const char *kvt_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

bool kvt_file_is_same(const char *a, const char *b)
{
    struct stat one, two;
    return stat(a, &one) == 0 && stat(b, &two) == 0 && is_same(&one, &two);
}

char *kvt_path_join(const char *folder, const char *path)
{
    bool alone = path[0] == '/' || folder[0] == '\0';
    size_t bytes = strlen(folder) + strlen(path) + 2;
    char *joined = malloc(bytes);
    if (joined != NULL)
        snprintf(joined, bytes, "%s%s%s", alone ? "" : folder, alone ? "" : "/", path);
    return joined;
}

#ifndef KVT_DATADIR
#define KVT_DATADIR "/usr/local/share/kvtwin"
#endif

static bool folder_has_configs(const char *folder)
{
    char path[PATH_MAX];
    int wrote = snprintf(path, sizeof path, "%s/configs/calibrations", folder);
    return wrote > 0 && wrote < (int)sizeof path && access(path, R_OK) == 0;
}

const char *kvt_data_folder(void)
{
    static char folder[PATH_MAX];
    if (folder[0] != '\0')
        return folder;
    const char *given = getenv("KVTWIN_DATA");
    if (given != NULL && given[0] != '\0') {
        snprintf(folder, sizeof folder, "%s", given);
        return folder;
    }
    /* A program in build/MODE/ finds the sources two folders up; one in PREFIX/bin finds
     * PREFIX/share/kvtwin, wherever the tree was moved to. */
    char program[PATH_MAX];
    ssize_t count = readlink("/proc/self/exe", program, sizeof program - 1);
    program[count > 0 ? count : 0] = '\0';
    for (int up = 0; up < 4; up++) {
        char *slash = strrchr(program, '/');
        if (slash == NULL)
            break;
        *slash = '\0';
        char shared[PATH_MAX + 16];
        snprintf(shared, sizeof shared, "%s/share/kvtwin", program);
        const char *found = folder_has_configs(program)  ? program
                            : folder_has_configs(shared) ? shared
                                                         : NULL;
        if (found != NULL && strlen(found) < sizeof folder) {
            memcpy(folder, found, strlen(found) + 1);
            return folder;
        }
    }
    snprintf(folder, sizeof folder, "%s", KVT_DATADIR);
    return folder;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum kvt_status kvt_folder_files(const char *folder, const char *suffix, char *files[],
                                 int32_t most, int32_t *count, struct kvt_err *err)
{
    bool whole = true;
    *count = 0;
    DIR *open = opendir(folder);
    if (open == NULL)
        return kvt_err_set(err, errno == ENOMEM ? KVT_ENOMEM : KVT_EIO,
                           "cannot open the folder %s: %s", folder, strerror(errno));
    for (struct dirent *entry = readdir(open); entry != NULL && whole && *count < most;
         entry = readdir(open)) {
        if (!kvt_text_ends(entry->d_name, suffix) || entry->d_name[0] == '.')
            continue;
        files[*count] = kvt_path_join(folder, entry->d_name);
        whole = files[*count] != NULL;
        *count += whole;
    }
    closedir(open);
    if (whole) {
        qsort(files, (size_t)*count, sizeof *files, by_text);
        return KVT_OK;
    }
    while (*count > 0)
        free(files[--*count]);
    return kvt_err_set(err, KVT_ENOMEM, "no memory for the files of %s", folder);
}

enum kvt_status kvt_shipped_files(const char *kind, char *files[], int32_t most, int32_t *count,
                                  struct kvt_err *err)
{
    char folder[PATH_MAX + 64];
    snprintf(folder, sizeof folder, "%s/configs/%s", kvt_data_folder(), kind);
    return kvt_folder_files(folder, ".yaml", files, most, count, err);
}
