// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package leaseredis_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/internal/kit/lease/leaseredis"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/redistest"
)

// holdArgument makes the test binary a holder for TestFrozenHolderNotices instead of running tests.
const holdArgument = "hold-a-lease"

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Arg(0) != holdArgument {
		os.Exit(m.Run())
	}
	if err := holdAndWrite(context.Background(), flag.Arg(1), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// fencedWrite appends the epoch to the log unless a newer one has been given.
const fencedWrite = leaseredis.FenceLua + `
if not leat_fence(KEYS[1], ARGV[1]) then return redis.error_reply('STALE') end
return redis.call('RPUSH', KEYS[2], ARGV[1])`

func writeFenced(ctx context.Context, client *redis.Client, epoch uint64) error {
	return redis.NewScript(fencedWrite).Run(ctx, client,
		[]string{leaseredis.EpochKey(prefix, "k"), prefix + "log:{k}"}, strconv.FormatUint(epoch, 10)).Err()
}

// holdAndWrite holds the lease and writes under it as fast as it can, until it notices that the
// lease is lost. It prints one line each: "held" after the first write, then "lost" and the number
// of refused writes.
func holdAndWrite(ctx context.Context, addr string, out io.Writer) error {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	params := lease.KeeperParams{Store: leaseredis.New(client, prefix), Key: "k", Owner: "frozen", TTL: time.Second}
	err := lease.Hold(ctx, params, func(working context.Context, held *lease.Held) error {
		refused, written := 0, false
		for held.Check() == nil {
			if err := writeFenced(ctx, client, held.Epoch()); err != nil {
				refused++
			} else if !written {
				_, _ = fmt.Fprintln(out, "held")
				written = true
			}
		}
		<-working.Done() // must end without help
		if !written {    // a busy machine loses the first lease before it writes
			return nil
		}
		cancel() // one tenure is enough
		_, err := fmt.Fprintln(out, "lost", refused)
		return err
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// TestFrozenHolderNotices stops a process with SIGSTOP in the middle of its writes, has another one
// acquire the lease and write, and resumes the first one. From then on no write of the old epoch
// may succeed, and the old holder must stop.
func TestFrozenHolderNotices(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	holder := exec.CommandContext(t.Context(), os.Args[0], holdArgument, server.Addr())
	holder.Stderr = os.Stderr
	pipe, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Process.Kill() })
	lines := bufio.NewScanner(pipe)
	expect(t, lines, "held")

	if err := holder.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	next := takeOver(t, leaseredis.New(client, prefix))
	if err := writeFenced(t.Context(), client, next.Epoch); err != nil {
		t.Fatalf("write of the new holder: %v", err)
	}
	if err := holder.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	expect(t, lines, "lost")
	if err := holder.Wait(); err != nil {
		t.Errorf("old holder: got %v, want a clean end", err)
	}

	log, err := client.LRange(t.Context(), prefix+"log:{k}", 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	if last, want := log[len(log)-1], strconv.FormatUint(next.Epoch, 10); last != want {
		t.Errorf("last write: got epoch %s, want %s: a frozen holder's write got through", last, want)
	}
	if h, err := leaseredis.New(client, prefix).Holder(t.Context(), "k"); err != nil || h.Owner != "new" {
		t.Errorf("holder at the end: got %+v, %v, want new", h, err)
	}
}

func expect(t *testing.T, lines *bufio.Scanner, want string) {
	t.Helper()
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), want) {
		t.Fatalf("holder prints %q, %v, want %q", lines.Text(), lines.Err(), want)
	}
}

// takeOver acquires the lease as soon as it has expired.
func takeOver(t *testing.T, store lease.Store) (l lease.Lease) {
	t.Helper()
	await.Success(t, "the end of the frozen holder's lease", func(ctx context.Context) (err error) {
		l, err = store.Acquire(ctx, lease.AcquireParams{Key: "k", Owner: "new", TTL: time.Hour})
		if err != nil && !errors.Is(err, lease.ErrHeld) {
			t.Fatalf("take over: %v", err)
		}
		return err
	})
	return l
}
