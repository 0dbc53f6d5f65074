// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reason_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/contract/reason"
)

// TestListMatchesTheWire compares the generated list with the generated code of the wire format.
func TestListMatchesTheWire(t *testing.T) {
	t.Parallel()
	for number, name := range errorsv1.Reason_name {
		want := strings.TrimPrefix(name, "REASON_")
		if number == 0 {
			want = ""
		}
		if got := reason.FromNumber(number); got.String() != want {
			t.Errorf("reason %d is %q, want %q; run make generate", number, got, want)
		}
		parsed, known := reason.Parse(want)
		if parsed != reason.FromNumber(number) || known != (number != 0) {
			t.Errorf("Parse(%q) = %v, %v", want, parsed, known)
		}
	}
	for number := reason.Reason(0); number < 1000; number++ {
		if _, onWire := errorsv1.Reason_name[int32(number)]; !onWire && number.String() != "INTERNAL" || !onWire && reason.FromNumber(int32(number)) != reason.Internal {
			t.Errorf("reason %d (%v) is not on the wire; run make generate", number, number)
		}
	}
}

func TestReasonInJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]reason.Reason{
		`"NOT_FOUND"`: reason.NotFound, `"FROM_A_NEWER_RELEASE"`: reason.Internal, `""`: 0, `"UNSPECIFIED"`: 0,
	} {
		var got reason.Reason
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s is read as %v, %v", text, got, err)
		}
	}
	if text, err := json.Marshal(reason.LFSObjectMissing); err != nil || string(text) != `"LFS_OBJECT_MISSING"` {
		t.Errorf("written as %s, %v", text, err)
	}
}

type limit struct{}

func (limit) Error() string         { return "too large" }
func (limit) Reason() reason.Reason { return reason.RenderLimit }

func TestProblemOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want reason.Problem
	}{
		"a problem in a chain": {fmt.Errorf("apply: %w", reason.Errorf(reason.ApplyRejected, "no %d", 1)), reason.Problem{Reason: reason.ApplyRejected, Message: "apply: no 1"}},
		"a type with a reason": {fmt.Errorf("render: %w", limit{}), reason.Problem{Reason: reason.RenderLimit, Message: "render: too large"}},
		"a problem first":      {errors.Join(limit{}, reason.Errorf(reason.HookFailed, "no")), reason.Problem{Reason: reason.HookFailed, Message: "too large\nno"}},
		"a deadline":           {fmt.Errorf("get: %w", context.DeadlineExceeded), reason.Problem{Reason: reason.DeadlineExceeded, Message: "get: context deadline exceeded"}},
		"anything else":        {errors.New("boom"), reason.Problem{Reason: reason.Internal, Message: "boom"}},
	} {
		if got := reason.ProblemOf(c.err); !got.Equal(&c.want) {
			t.Errorf("%s: %+v, want %+v", name, *got, c.want)
		}
	}
	if (*reason.Problem)(nil).Equal(&reason.Problem{}) || !(*reason.Problem)(nil).Equal(nil) {
		t.Error("nil equals what it is not")
	}
}
