/*
 * points_file.h - a small file of a sweep or a search, for tests of those who read one
 */
#ifndef KVT_TESTS_POINTS_FILE_H
#define KVT_TESTS_POINTS_FILE_H

/* Three points with the settings and metrics that their page shows; kind: "sweep" or "plan". */
void points_file_write(const char *path, const char *kind);

#endif
