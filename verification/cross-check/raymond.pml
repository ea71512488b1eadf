/*
 * Raymond's k-mutual exclusion of 1989 in Promela, for SPIN. With K = 1 it is the algorithm of Ricart and Agrawala, 1981.
 *
 * It is written from the algorithm, by hand, to be compared with `kgate check --protocol raymond`, which explores the Rust
 * code: two models and two explorers that share nothing must find the same number of states. `cargo xtask spin` compares them.
 *
 * Who wants in stamps a request with its clock and sends it to everybody. A process answers with REPLY at once, but puts the
 * answer off until it comes out if it is inside, or waits with an earlier stamp. Who has N-K replies goes in. FIFO channels.
 *
 * One step of the explorer is one d_step here: a client asks, a client comes out, a message arrives and is answered. No
 * state between two of them is stored, every process stands at the head of its loop in every state, there are no variables but
 * those of the algorithm and how often each client asked, and what no longer matters is reset. The processes are active from
 * the beginning, so that SPIN has one initial state, as the explorer has.
 *
 * N processes, 2 or 3; K units, fewer than N; each client asks ENTRIES times. With SERVED it is also checked that no client waits for ever.
 */

#ifndef N
#define N 3
#endif
#ifndef K
#define K 1
#endif
#ifndef ENTRIES
#define ENTRIES 2
#endif

/* A process sends another at most a request and a reply for each time that a client asks; a send to a full channel is an error. */
#define CAPACITY (2 * ENTRIES)

#define IDLE 0
#define WAITING 1
#define INSIDE 2

mtype = { REQUEST, REPLY };

/* The channel from i to j is way[i * N + j]. A message carries the clock of the request that it is, or that it answers. */
chan way[N * N] = [CAPACITY] of { mtype, byte };

byte clock[N];
byte phase[N];
byte asked[N];
byte stamp[N];             /* the clock of the present request; 0 while idle */
byte given[N];             /* who has given permission, a bit each; none while inside */
byte deferred[N * N];      /* deferred[i * N + j]: the clock of j's newest request that i has put off; 0 if none */

/* Scratch of a step; hidden, that is to say: not part of a state. */
hidden mtype kind;
hidden byte sent;
hidden byte other;
hidden byte count;

inline ask(me) {
    phase[me] == IDLE && asked[me] < ENTRIES;
    asked[me]++;
    clock[me]++;
    stamp[me] = clock[me];
    for (other : 0 .. N - 1) {
        if
        :: other != me -> way[me * N + other] ! REQUEST, stamp[me]
        :: else
        fi
    }
    phase[me] = WAITING    /* a d_step must not end in a loop */
}

inline come_out(me) {
    phase[me] == INSIDE;
    stamp[me] = 0;
    for (other : 0 .. N - 1) {
        if
        :: deferred[me * N + other] != 0 ->
            way[me * N + other] ! REPLY, deferred[me * N + other];
            deferred[me * N + other] = 0
        :: else
        fi
    }
    phase[me] = IDLE
}

/* At most K inside: checked at each entry. */
inline go_in(me) {
    phase[me] = INSIDE;
    given[me] = 0;
    count = 0;
    for (other : 0 .. N - 1) {
        if
        :: phase[other] == INSIDE -> count++
        :: else
        fi
    }
    assert(count <= K)
}

/* Whether the own request has priority over the one that was sent. */
#define comes_first(me, from) (stamp[me] < sent || (stamp[me] == sent && me < from))

inline on_request(me, from) {
    if
    :: sent > clock[me] -> clock[me] = sent
    :: else
    fi;
    if
    :: (phase[me] == INSIDE || (phase[me] == WAITING && comes_first(me, from))) ->
        deferred[me * N + from] = sent
    :: else ->
        way[me * N + from] ! REPLY, sent
    fi
}

inline on_reply(me, from) {
    if
    :: phase[me] == WAITING && stamp[me] == sent ->
        given[me] = given[me] | (1 << from);
        count = (given[me] & 1) + ((given[me] >> 1) & 1) + ((given[me] >> 2) & 1);
        if
        :: count >= N - K -> go_in(me)
        :: else
        fi
    :: else               /* an answer to an earlier request, which did not wait for it */
    fi
}

inline arrive(me, from) {
    way[from * N + me] ? kind, sent;
    if
    :: kind == REQUEST -> on_request(me, from)
    :: kind == REPLY -> on_reply(me, from)
    fi
}

active [N] proctype process() {
    do
    :: d_step { ask(_pid) }
    :: d_step { come_out(_pid) }
    :: d_step { arrive(_pid, 0) }
    :: d_step { arrive(_pid, 1) }
#if N > 2
    :: d_step { arrive(_pid, 2) }
#endif
#ifdef SERVED
    /* Everyone is served: when nothing can happen any more, nobody waits. It adds no state, but a transition. */
    :: d_step { timeout; assert(phase[_pid] == IDLE && asked[_pid] == ENTRIES) }
#endif
    od
}
