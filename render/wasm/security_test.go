// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wasm_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
)

// TestSecModulesReachTheTreeAlone runs a module that tries to reach everything else.
func TestSecModulesReachTheTreeAlone(t *testing.T) {
	t.Setenv("LEAT_CANARY", "canary")
	in := input(t, hostileModule, map[string]any{"do": "machine"})
	got, err := text(t, in)
	if err != nil {
		t.Fatal(err)
	}
	want := "arguments [\"render.wasm\"]\nenvironment []\ntime 1970-01-01T00:00:00Z\n" +
		`files ["texts/a.txt=first -rw------- 0" "texts/b/c.txt=below -rw------- 0"]`
	reached, random, _ := strings.Cut(got, "\nrandom ")
	if reached != want {
		t.Errorf("the module reaches\n%s\nwant\n%s", got, want)
	}
	if again, err := text(t, in); again != got || err != nil {
		t.Errorf("another run reaches\n%s, %v", again, err)
	}
	in.Step.WASM.AllowClock, in.Step.WASM.AllowRandom = true, true
	allowed, err := text(t, in)
	if err != nil || strings.Contains(allowed, "time 1970") || strings.Contains(allowed, random) {
		t.Errorf("allowed clock and chance: got %.200s, %v", allowed, err)
	}
}

// TestSecModulesAreBounded runs modules that want more than they get.
func TestSecModulesAreBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		do   string
		most time.Duration
		want render.Limit
	}{
		"an endless loop": {"loop", 300 * time.Millisecond, render.LimitTime},
		"memory":          {"memory", time.Hour, render.LimitMemory},
		"output":          {"output", time.Hour, render.LimitText},
		"deep recursion":  {"deep", time.Hour, render.LimitMemory},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input(t, hostileModule, map[string]any{"do": test.do})
			in.Limits.Text = 1 << 20
			_, err := renderer.Limited(24<<20, test.most).RenderStep(t.Context(), in)
			if limit := new(render.LimitError); !errors.As(err, &limit) || limit.Limit != test.want {
				t.Errorf("got %v, want a limit of %s", err, test.want)
			}
		})
	}
}

// TestSecModulesEndWithTheContext ends an endless loop, and a module that sleeps by a real clock.
func TestSecModulesEndWithTheContext(t *testing.T) {
	t.Parallel()
	for _, do := range []string{"loop", "sleep"} {
		in := input(t, hostileModule, map[string]any{"do": do})
		in.Step.WASM.AllowClock = true
		cause := errors.New("the service was deleted")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(300*time.Millisecond, func() { cancel(cause) })
		if _, err := renderer.RenderStep(ctx, in); !errors.Is(err, cause) {
			t.Errorf("%s: got %v, want the context's cause", do, err)
		}
	}
}

// TestSleepMovesTheStillClock lets a module sleep for an hour of its own time.
func TestSleepMovesTheStillClock(t *testing.T) {
	t.Parallel()
	if got, err := text(t, input(t, hostileModule, map[string]any{"do": "sleep"})); got != "slept" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestSecModulesThatDeclareTooMuch declare more memory than they may have.
func TestSecModulesThatDeclareTooMuch(t *testing.T) {
	t.Parallel()
	for _, pages := range [][]byte{{0x80, 0x80, 0x02}, {0x80, 0x80, 0x04}} { // 2 GiB, 4 GiB
		binary := bytes.Join([][]byte{
			[]byte("\x00asm\x01\x00\x00\x00"), section(1, 1, 0x60, 0, 0), section(3, 1, 0), section(5, append([]byte{1, 0}, pages...)...),
			section(7, 1, 6, '_', 's', 't', 'a', 'r', 't', 0, 0), section(10, 1, 2, 0, 0x0b),
		}, nil)
		in := render.StepInput{Step: renderstep.Step{WASM: &renderstep.WASMOptions{Module: "m.wasm"}}}
		in.Files = render.NewFiles(map[string][]byte{"m.wasm": binary})
		_, err := renderer.RenderStep(t.Context(), in)
		if limit := new(render.LimitError); !errors.As(err, &limit) || limit.Limit != render.LimitMemory {
			t.Errorf("got %v, want a limit of memory", err)
		}
	}
}
