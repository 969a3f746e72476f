/*
** rooms.h: shards with scratch memory. There are as many rooms as threads, so that one thread writes the same memory,
** which is near, in shard after shard; what a shard finds in its room is of another.
*/
#ifndef PN_BASE_ROOMS_H
#define PN_BASE_ROOMS_H

#include "context.h"

/* As pni_shard, with a room that nobody else is in. */
typedef void (*pni_room_shard)(void *data, int64_t begin, int64_t end, void *room);

/* pni_parallel with rooms of so many elements, at multiples of 64 bytes. */
pn_status pni_parallel_in_rooms(pn_context *c, int64_t n, int64_t grain, int64_t elements, size_t size,
                                pni_room_shard body, void *data);

#endif
