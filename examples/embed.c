/* Prefills one sequence: ./embed PACK, where PACK is the folder of manifest.json. */
#include <stdio.h>
#include <stdlib.h>

#include "stratum.h"

enum { TOKENS = 100, Q_HEADS = 8, KV_HEADS = 2, HEAD_DIM = 64, GATE_DIM = 32 };

static void check(stratum_status status) {
  if (status == STRATUM_OK) return;
  fprintf(stderr, "embed: %s\n", stratum_error_message());
  exit(1);
}

/* Packed rows [TOKENS, heads, dim] in device memory; a real program describes arrays of its own. */
static stratum_array rows(stratum_engine engine, int64_t heads, int64_t dim) {
  stratum_array array = {.shape = {TOKENS, heads, dim}, .stride = {heads * dim, dim, 1}, .rank = 3,
                         .dtype = STRATUM_BFLOAT16, .device = 0};
  check(stratum_device_allocate(engine, TOKENS * heads * dim * 2, 0, &array.data));
  return array;
}

int main(int argc, char** argv) {
  const char* config =
      "{\"head_dim\": 64, \"gate_dim\": 32, \"q_heads\": 8, \"kv_heads\": 2, \"device\": 0,"
      " \"modes\": [\"prefill\", \"decode\"],"
      " \"max_sequences\": 16, \"max_seq_len\": 4096, \"max_cached_tokens\": 16384}";
  stratum_engine engine;
  check(stratum_build(config, argc > 1 ? argv[1] : "cubins", &engine));

  stratum_array q = rows(engine, Q_HEADS, HEAD_DIM), o = rows(engine, Q_HEADS, HEAD_DIM);
  stratum_array k = rows(engine, KV_HEADS, HEAD_DIM), v = rows(engine, KV_HEADS, HEAD_DIM);
  stratum_array qg = rows(engine, Q_HEADS, GATE_DIM), kg = rows(engine, KV_HEADS, GATE_DIM);

  int64_t id, length = TOKENS;
  check(stratum_create(engine, &id));
  check(stratum_prefill(engine, &id, &length, 1, &q, &k, &v, &qg, &kg, &o, /*stream=*/0));
  check(stratum_length(engine, id, &length));
  printf("%lld tokens cached\n", (long long)length);

  stratum_array* all[] = {&q, &k, &v, &qg, &kg, &o};
  for (int i = 0; i < 6; ++i) check(stratum_device_free(engine, all[i]->data, 0));
  check(stratum_close(engine));
  return 0;
}
