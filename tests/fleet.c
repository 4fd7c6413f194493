#include "tests/fleet.h"

#include <stdio.h>
#include <string.h>

#include "tests/check.h"

void fleet_begin(struct fleet *fleet)
{
    struct kvt_err err = {0};
    kvt_arena_release(&fleet->arena);
    memset(fleet, 0, sizeof *fleet);
    fleet->spec.tenants = 1;
    fleet->spec.input = fleet->input;
    fleet->spec.output = fleet->output;
    CHECK_OK(kvt_arena_init(&fleet->arena, 4 << 20, &err), err);
}

struct kvt_replica_spec *fleet_role(struct fleet *fleet, enum kvt_role role, enum kvt_engine engine)
{
    fleet->roles[role] = (struct kvt_replica_spec){
        .role = role,
        .engine = engine,
        .pages = 100,
        .page_tokens = 4,
        .free_order = KVT_FREE_LIFO,
        .chunk_tokens = 8,
        .batch_tokens = engine == KVT_ENGINE_VLLM ? 8 : 100,
        .max_running = 8,
        .max_model_len = 1 << 20,
        .conservativeness = 1,
    };
    fleet->spec.roles[role] = &fleet->roles[role];
    fleet->spec.replicas[role] = 1;
    return &fleet->roles[role];
}

void fleet_request(struct fleet *fleet, int32_t input, int32_t output)
{
    int32_t r = fleet->spec.request_count++;
    fleet->input[r] = input;
    fleet->output[r] = output;
}

void fleet_build(struct fleet *fleet)
{
    struct kvt_err err = {0};
    CHECK_OK(kvt_core_init(&fleet->core, &fleet->arena, &fleet->spec, &err), err);
}

static void tell(struct fleet *fleet, const char *word, int32_t r)
{
    size_t used = strlen(fleet->text);
    snprintf(fleet->text + used, sizeof fleet->text - used, "%s%s%d", used > 0 ? " " : "", word, r);
}

void fleet_effects(struct fleet *fleet)
{
    static const char *const words[] = {
        [KVT_EFFECT_WAKE] = NULL,     [KVT_EFFECT_FIRST] = "first", [KVT_EFFECT_TOKEN] = "token",
        [KVT_EFFECT_FINISH] = "done", [KVT_EFFECT_PREEMPT] = "out", [KVT_EFFECT_SEND] = "send",
        [KVT_EFFECT_ACK] = "ack",     [KVT_EFFECT_REJECT] = "no",   [KVT_EFFECT_ABORT] = "gone",
    };
    for (int32_t i = 0; i < fleet->core.effect_count; i++) {
        const struct kvt_effect *effect = &fleet->core.effects[i];
        if (effect->kind == KVT_EFFECT_WAKE)
            continue;
        tell(fleet, words[effect->kind], effect->request);
        if (effect->kind == KVT_EFFECT_SEND) {
            char piece[32];
            snprintf(piece, sizeof piece, ":%d%s", effect->value, effect->last ? "!" : "");
            strncat(fleet->text, piece, sizeof fleet->text - strlen(fleet->text) - 1);
        }
    }
    fleet->core.effect_count = 0;
    kvt_core_validate(&fleet->core);
}

void fleet_arrive(struct fleet *fleet, int32_t r)
{
    kvt_core_arrive(&fleet->core, r);
    fleet_effects(fleet);
}

bool fleet_plan(struct fleet *fleet, int32_t replica)
{
    const struct kvt_step *step = kvt_core_plan(&fleet->core, replica);
    fleet_effects(fleet);
    if (step == NULL)
        return false;
    char text[256] = "";
    for (int32_t i = 0; i < step->chunk_count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), " %d+%d%s",
                 step->chunks[i].request, step->chunks[i].tokens, step->chunks[i].last ? "!" : "");
    if (step->decodes > 0)
        snprintf(text + strlen(text), sizeof text - strlen(text), " d%d@%lld", step->decodes,
                 (long long)step->context);
    size_t used = strlen(fleet->text);
    snprintf(fleet->text + used, sizeof fleet->text - used, "%s[%s]", used > 0 ? " " : "",
             text + 1);
    return true;
}

void fleet_commit(struct fleet *fleet, int32_t replica)
{
    kvt_core_commit(&fleet->core, replica, 1);
    fleet_effects(fleet);
}

void fleet_run(struct fleet *fleet, int32_t replica, int limit)
{
    for (int i = 0; i < limit && fleet_plan(fleet, replica); i++)
        fleet_commit(fleet, replica);
}

const char *fleet_told(struct fleet *fleet)
{
    static char told[2048];
    memcpy(told, fleet->text, sizeof told);
    fleet->text[0] = '\0';
    return told;
}
