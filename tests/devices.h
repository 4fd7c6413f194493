/*
 * devices.h - devices that are opened otherwise than the program would
 *
 * The linker puts this in front of kvt_device_open for every object of the test program (Makefile).
 */
#ifndef KVT_TESTS_DEVICES_H
#define KVT_TESTS_DEVICES_H

#include <stdbool.h>

/* Host devices that are opened from now on:
 *   apart        say that the host does not see their memory, as a GPU's: what the host wants of it
 *                goes through copies; no units for ceilings
 *   wait_fails   asked at each wait whether it ends with KVT_EDEVICE; NULL: none does
 */
void devices_are(bool apart, bool (*wait_fails)(void));

#endif
