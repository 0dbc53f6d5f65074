// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/admission"
)

func TestJoinTokens(t *testing.T) {
	t.Parallel()
	a, b := admission.NewJoinToken(), admission.NewJoinToken()
	if a == b || !strings.HasPrefix(a, admission.JoinTokenPrefix) || len(a) < len(admission.JoinTokenPrefix)+43 {
		t.Errorf("got %s and %s, want two tokens of 256 bits", a, b)
	}
	if string(admission.Hash(a)) == string(admission.Hash(b)) || len(admission.Hash(a)) != 32 {
		t.Error("hashes do not tell tokens apart")
	}
}

func TestIdentityUID(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, uid := range []string{"a", "b"} {
		for generation := range int64(3) {
			seen[admission.IdentityUID(uid, generation)] = true
		}
	}
	if len(seen) != 6 {
		t.Errorf("got %v, want one for each cluster and generation", seen)
	}
}

func TestReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := admission.NewReplay(time.Minute, 100)
		for age := time.Duration(0); age < 10*time.Minute; age += 45 * time.Second {
			id := fmt.Sprint(age)
			if !r.First(id) {
				t.Errorf("%s: the first use was refused", id)
			}
			<-time.After(time.Minute - time.Nanosecond) // virtual
			if r.First(id) {
				t.Errorf("%s: a replay within its life was accepted", id)
			}
		}
	})
}

func TestReplayIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := admission.NewReplay(time.Minute, 10)
		for i := range 10 {
			if !r.First(fmt.Sprint(i)) {
				t.Errorf("%d: refused while there was room", i)
			}
		}
		if r.First("one more") {
			t.Error("accepted past the bound: something would have been forgotten")
		}
		<-time.After(2 * time.Minute) // virtual
		if !r.First("later") {
			t.Error("refused although the old ones have ended")
		}
	})
}
