// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"context"
	"crypto/ed25519"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/distributor"
)

// TestSecStrangersTakeNoPlaceAtTheEnrolmentGate guesses join tokens at a replica that admits one
// enrolment a second. An honest agent can still enrol.
func TestSecStrangersTakeNoPlaceAtTheEnrolmentGate(t *testing.T) {
	t.Parallel()
	h := startHub(t, func(c *distributor.Config) { c.AgentRate = 1 })
	h.apply(t, clusterDocument("one"))
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	var guessing sync.WaitGroup
	for range 100 {
		guessing.Go(func() {
			_, err := h.agents(t, "").Enroll(t.Context(), &distributorv1.EnrollRequest{JoinToken: "leatjoin_guessed", PublicKey: public})
			wantReason(t, err, "JOIN_TOKEN_INVALID")
		})
	}
	guessing.Wait()
	join, err := h.fleet(t, adminToken).CreateJoinToken(t.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.agents(t, "").Enroll(t.Context(), &distributorv1.EnrollRequest{JoinToken: join.GetJoinToken(), PublicKey: public}); err != nil {
		t.Errorf("got %v, want the honest agent to enrol after a hundred guesses", err)
	}
}

// TestSecOneAgentTakesNoOthersRenewals renews the token of one agent without end, at a replica that
// another agent also uses.
func TestSecOneAgentTakesNoOthersRenewals(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, clusterDocument("hostile"), clusterDocument("honest"))
	hostile, honest := h.enrol(t, "hostile"), h.enrol(t, "honest")
	var refused error
	accepted := 0
	for range 200 {
		assertion, err := identity.SignAssertion(hostile.key, hostile.cluster)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.agents(t, "").RefreshToken(t.Context(), &distributorv1.RefreshTokenRequest{Assertion: assertion}); err != nil {
			refused = err
		} else {
			accepted++
		}
	}
	wantReason(t, refused, "RATE_LIMITED")
	if wait, ok := rpcerr.RetryDelay(refused); !ok || wait <= 0 || accepted > 150 {
		t.Errorf("%d of 200 were accepted, the rest told to wait %s; want some tens, and the rest told when to come again", accepted, wait)
	}
	h.refresh(t, honest)
}

// TestSecOneAgentTakesNoOthersOpenings opens and closes streams as one agent, at a replica whose
// gate admits few. Rejected streams do not count at the gate.
func TestSecOneAgentTakesNoOthersOpenings(t *testing.T) {
	t.Parallel()
	const rate, perCluster = 60, 100
	h := startHub(t, func(c *distributor.Config) { c.AgentRate = rate }) // 300 at once
	h.apply(t, clusterDocument("hostile"), clusterDocument("honest"))
	hostile, honest := h.enrol(t, "hostile"), h.enrol(t, "honest")
	began, opened := time.Now(), 0
	for range 500 {
		ctx, leave := context.WithTimeout(t.Context(), await.Patience)
		if err := h.open(t, ctx, hostile.token); err == nil {
			opened++
		}
		leave()
	}
	if most := perCluster + int(time.Since(began)/time.Second) + 1; opened > most {
		t.Errorf("one agent opened %d streams, want at most %d", opened, most)
	}
	ctx, leave := context.WithTimeout(t.Context(), await.Patience)
	defer leave()
	if err := h.open(t, ctx, honest.token); err != nil {
		t.Errorf("got %v, want the stream of another agent opened", err)
	}
}

// TestSecJoinTokenOfAnotherReplica enrols at a replica that did not make the token, right after
// that replica has read the tokens.
func TestSecJoinTokenOfAnotherReplica(t *testing.T) {
	t.Parallel()
	git := startFakeGit(t)
	first := startReplica(t, git)
	second := startReplica(t, git, func(c *distributor.Config) { c.DatabaseURL = first.cfg.DatabaseURL })
	first.apply(t, clusterDocument("one"))
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	enrol := func(token string) error {
		_, err := second.agents(t, "").Enroll(t.Context(), &distributorv1.EnrollRequest{JoinToken: token, PublicKey: public})
		return err
	}
	wantReason(t, enrol("leatjoin_guessed"), "JOIN_TOKEN_INVALID")
	join, err := first.fleet(t, adminToken).CreateJoinToken(t.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: "one"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second is a retry of an agent that did not get the first answer
		if err := enrol(join.GetJoinToken()); err != nil {
			t.Errorf("got %v, want the token of another replica to be known", err)
		}
	}
}

// TestSecChangedHostAsksForTheCredential moves a repository to another host and leaves its
// credential out, by an Apply that only updates and by any other.
func TestSecChangedHostAsksForTheCredential(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	document := repositoryDocument("demo")
	document.GetRepository().Spec.Credential = &gitcachev1.Credential{Method: &gitcachev1.Credential_Basic{
		Basic: &gitcachev1.BasicCredential{Username: "u", Password: "hunter2"},
	}}
	h.apply(t, document)
	await.True(t, "the definition", func() bool { return h.git.definition("demo").GetCredential() != nil })
	moved := repositoryDocument("demo")
	moved.GetRepository().Spec.Url = "https://evil.example/demo.git"
	admin := h.fleet(t, adminToken)
	_, err := fleetcalls.Update(t.Context(), admin, moved.GetRepository())
	wantReason(t, err, "FIELD_INVALID")
	if message := rpcerr.Message(err); !strings.Contains(message, "give the credential again") || strings.Contains(message, "hunter2") {
		t.Errorf("got %q, want to be asked for the credential", message)
	}
	_, err = admin.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{moved}})
	wantReason(t, err, "FIELD_INVALID")
	if got := h.git.definition("demo").GetUrl(); got != "https://git.example/demo.git" {
		t.Errorf("gitcache was given the credential for %s", got)
	}
	moved.GetRepository().Spec.Credential = &gitcachev1.Credential{}
	h.apply(t, moved)
	await.True(t, "the moved definition without a credential", func() bool {
		d := h.git.definition("demo")
		return d.GetUrl() == "https://evil.example/demo.git" && d.GetCredential() == nil
	})
}

// TestSecSQLiteIsKeptFromOthers opens a database under a umask that allows everything. All users
// may access its data folder, and files that an earlier version left in it.
func TestSecSQLiteIsKeptFromOthers(t *testing.T) {
	t.Parallel()
	const child = "LEAT_TEST_UMASK_CHILD"
	if os.Getenv(child) == "" {
		// The umask belongs to the process, which other tests share.
		command := exec.CommandContext(t.Context(), "sh", "-c", `umask 000; exec "$0" -test.run='^TestSecSQLiteIsKeptFromOthers$' -test.v`, os.Args[0])
		command.Env = append(os.Environ(), child+"=1")
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	h := startHub(t, func(c *distributor.Config) {
		c.DatabaseURL = "" // leat.db in the data folder
		if err := os.Mkdir(c.DataDir, 0o777); err != nil {
			t.Fatal(err)
		}
	})
	h.apply(t, clusterDocument("one"))
	wantPrivate := func() {
		t.Helper()
		seen := 0
		for _, name := range []string{"", "leat.db", "leat.db-wal", "leat.db-shm"} {
			info, err := os.Stat(filepath.Join(h.cfg.DataDir, name))
			if err != nil {
				continue
			}
			seen++
			if info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%q has mode %s, want nothing for others", name, info.Mode())
			}
		}
		if seen != 4 {
			t.Errorf("saw %d of the folder and the three files", seen)
		}
	}
	wantPrivate()
	for _, name := range []string{"leat.db", "leat.db-wal"} {
		if err := os.Chmod(filepath.Join(h.cfg.DataDir, name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	again := startReplica(t, h.git, func(c *distributor.Config) { c.DatabaseURL = "sqlite:" + filepath.Join(h.cfg.DataDir, "leat.db") })
	again.apply(t, clusterDocument("two"))
	wantPrivate()
	err := filepath.WalkDir(h.cfg.DataDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s, want nothing for others", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
