#include "sim/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 4, 0))) static enum kvt_status
err_add(struct kvt_err *err, enum kvt_status status, const char *prefix, const char *format,
        va_list args)
{
    if (err == NULL)
        return status;
    if (err->count == 0) {
        err->status = status;
        err->text[0] = '\0';
    }
    err->count++;
    size_t used = strlen(err->text);
    size_t room = sizeof err->text - used;
    if (err->count > KVT_ERR_MESSAGES) {
        if (err->count == KVT_ERR_MESSAGES + 1 && room > 32)
            snprintf(err->text + used, room, "\nmore errors follow; mend these first");
        return status;
    }
    const char *separator = used > 0 ? "\n" : "";
    int wrote = snprintf(err->text + used, room, "%s%s", separator, prefix);
    if (wrote < 0 || (size_t)wrote >= room)
        return status;
    used += (size_t)wrote;
    /* One message may be long (a path, a quoted value) but must leave room for the other nine. */
    size_t limit = sizeof err->text / (KVT_ERR_MESSAGES + 1);
    room = sizeof err->text - used < limit ? sizeof err->text - used : limit;
    vsnprintf(err->text + used, room, format, args);
    return status;
}

enum kvt_status kvt_err_set(struct kvt_err *err, enum kvt_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    err_add(err, status, "", format, args);
    va_end(args);
    return status;
}

enum kvt_status kvt_err_at(struct kvt_err *err, enum kvt_status status, struct kvt_where where,
                           const char *format, ...)
{
    char prefix[512] = "";
    const char *file = where.file != NULL ? where.file : "";
    if (where.line > 0 && where.column > 0)
        snprintf(prefix, sizeof prefix, "%.460s:%d:%d: ", file, where.line, where.column);
    else if (where.line > 0)
        snprintf(prefix, sizeof prefix, "%.480s:%d: ", file, where.line);
    else if (file[0] != '\0')
        snprintf(prefix, sizeof prefix, "%.500s: ", file);
    va_list args;
    va_start(args, format);
    err_add(err, status, prefix, format, args);
    va_end(args);
    return status;
}

const char *kvt_status_text(enum kvt_status status)
{
#define X(name, code, text) [KVT_##name] = (text),
    static const char *const texts[] = {KVT_STATUSES(X)};
#undef X
    return texts[status];
}
