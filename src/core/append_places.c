// No two tokens of an append may have one place in the cache: which of them would stay there is up
// to threads. Sequences can meet in a shared page or in an equal cache_batch_idx.
//
// Tokens are looked at in pieces, runs of rows of one page or entry. An append allocates nothing,
// so a table of PIECES of them on the stack is filled, all later pieces are looked up in it, and
// it is filled again behind where it ended: n^2 / (2 * PIECES) look-ups for n pieces, one pass for
// most batches.
#include <inttypes.h>
#include <string.h>

#include "append_check.h"
#include "status.h"

#define PIECES 512
#define SLOTS (2 * PIECES) // a power of 2: half of them stay empty

// Rows [begin, end) of a page or entry that a sequence writes.
typedef struct piece {
    int64_t sequence;
    int64_t begin;
    int64_t end;
    int32_t id;
} piece_t;

typedef struct piece_table {
    piece_t pieces[PIECES];
    int32_t count;
    int16_t slots[SLOTS]; // 1 + an index of pieces; 0: empty
} piece_table_t;

// The next token to look at.
typedef struct token_cursor {
    int64_t sequence;
    int64_t token;
} token_cursor_t;

static int64_t tokens_of(const attn_append_desc_t *desc, const attn_append_args_t *args, int64_t b)
{
    const int32_t *cu = args->cu_seqlens_new;
    return desc->varlen_new ? cu[b + 1] - cu[b] : desc->s_new;
}

// Whether there is another piece; moves the cursor behind it.
static int next_piece(const attn_append_desc_t *desc, const attn_append_args_t *args,
                      token_cursor_t *cursor, piece_t *piece_out)
{
    while (cursor->sequence < desc->batch &&
           cursor->token >= tokens_of(desc, args, cursor->sequence)) {
        cursor->sequence++;
        cursor->token = 0;
    }
    if (cursor->sequence == desc->batch) {
        return 0;
    }
    const int64_t b = cursor->sequence;
    const int64_t rest = tokens_of(desc, args, b) - cursor->token;
    const int64_t position = args->cache_seqlens[b] + cursor->token;
    piece_t piece = {.sequence = b, .begin = position, .end = position + rest};
    if (desc->paged_kv) {
        const int64_t page = position / desc->page_size;
        const int64_t room = (page + 1) * desc->page_size - position;
        piece.id = args->page_table[b * desc->page_table_stride_b + page];
        piece.begin = position % desc->page_size;
        piece.end = piece.begin + (rest < room ? rest : room);
    } else {
        piece.id = args->cache_batch_idx[b];
    }
    cursor->token += piece.end - piece.begin;
    *piece_out = piece;
    return 1;
}

static int do_meet(const piece_t *x, const piece_t *y)
{
    return x->id == y->id && x->begin < y->end && y->begin < x->end;
}

// The slot of the table's piece that meets this one; else an empty slot, where it would be put.
static uint32_t find_slot(const piece_table_t *table, const piece_t *piece)
{
    // Fibonacci hashing: the golden ratio's bits spread neighbouring ids.
    uint32_t slot = (uint32_t)piece->id * 2654435769u >> 16 & (SLOTS - 1);
    while (table->slots[slot] != 0 && !do_meet(&table->pieces[table->slots[slot] - 1], piece)) {
        slot = (slot + 1) & (SLOTS - 1);
    }
    return slot;
}

static attn_status_t check_slot(const attn_append_desc_t *desc, const piece_table_t *table,
                                const piece_t *piece, uint32_t slot)
{
    if (table->slots[slot] == 0) {
        return ATTN_OK;
    }
    const piece_t *other = &table->pieces[table->slots[slot] - 1];
    return attn_fail(ATTN_INVALID_ARGUMENT,
                     "%s: sequences %" PRId64 " and %" PRId64 " both append to row %" PRId64
                     " of %s %" PRId32 ", expected a place of its own for each token",
                     desc->paged_kv ? "page_table" : "cache_batch_idx", other->sequence,
                     piece->sequence, piece->begin > other->begin ? piece->begin : other->begin,
                     desc->paged_kv ? "page" : "entry", piece->id);
}

// Fills the table from the cursor on, and moves the cursor behind what was put in.
static attn_status_t fill_table(const attn_append_desc_t *desc, const attn_append_args_t *args,
                                token_cursor_t *cursor, piece_table_t *table)
{
    table->count = 0;
    memset(table->slots, 0, sizeof(table->slots));
    piece_t piece;
    while (table->count < PIECES && next_piece(desc, args, cursor, &piece)) {
        const uint32_t slot = find_slot(table, &piece);
        ATTN_FORWARD_ERROR(check_slot(desc, table, &piece, slot));
        table->pieces[table->count++] = piece;
        table->slots[slot] = (int16_t)table->count;
    }
    return ATTN_OK;
}

attn_status_t attn_append_check_places(const attn_append_desc_t *desc,
                                       const attn_append_args_t *args)
{
    if (!desc->paged_kv && !desc->has_cache_batch_idx) {
        return ATTN_OK;
    }
    token_cursor_t cursor = {0};
    piece_table_t table;
    do {
        ATTN_FORWARD_ERROR(fill_table(desc, args, &cursor, &table));
        token_cursor_t later = cursor;
        piece_t piece;
        while (next_piece(desc, args, &later, &piece)) {
            ATTN_FORWARD_ERROR(check_slot(desc, &table, &piece, find_slot(&table, &piece)));
        }
    } while (table.count == PIECES);
    return ATTN_OK;
}
