// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package compose_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/config/compose"
	"github.com/leatdev/leat/services/distributor/internal/config/compose/composetest"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	composetest.Run(t, func(*testing.T) composetest.Hub { return composetest.NewMemory() })
}

func newHub(t *testing.T, projects ...string) *composetest.Memory {
	t.Helper()
	m := composetest.NewMemory()
	backend := &catalog.ConfigBackend{Metadata: catalog.Metadata{Name: "vault"}}
	backend.Spec.AllowedPaths, backend.Spec.Projects = []string{"*"}, []string{"*"}
	m.Put(t, &catalog.Cluster{Metadata: catalog.Metadata{Name: "one"}}, backend)
	for _, name := range projects {
		m.Put(t, &catalog.Project{Metadata: catalog.Metadata{Name: name}})
	}
	return m
}

// referring returns a service that refers to n paths, from the first on.
func referring(name string, first, n int) *catalog.Service {
	references := map[string]string{}
	for i := range n {
		references[fmt.Sprintf("K%d", i)] = fmt.Sprintf("vault://p%d#a", first+i)
	}
	s := &catalog.Service{Metadata: catalog.Metadata{Name: name + "@one"}}
	s.Spec.Cluster, s.Spec.Config = "one", &catalog.Config{References: references}
	return s
}

// TestPathsAreBounded has services refer to as many paths of a back end as their projects may, and to
// as many as all projects may.
func TestPathsAreBounded(t *testing.T) {
	t.Parallel()
	const each = 250
	projects := []string{"a", "b", "c", "d", "e", "f"}
	m := newHub(t, projects...)
	var services []catalog.Object
	for path := 0; path < compose.MaxEntries; path += each {
		project := projects[path/compose.MaxProjectEntries]
		services = append(services, referring(fmt.Sprintf("%s.s%d", project, path), path, each))
	}
	m.Put(t, services...)
	refuse := func(want string, service *catalog.Service) {
		t.Helper()
		before := m.Revision(t)
		err := m.Apply(t.Context(), service)
		refused, ok := errors.AsType[*fielderr.Error](err)
		if !ok || refused.Path != "spec.config.references" || !strings.Contains(refused.Message, want) {
			t.Errorf("got %v, want an error of the field about %s", err, want)
		}
		if m.Revision(t) != before {
			t.Error("an edit that is refused begins a new version")
		}
	}
	refuse("10000 paths of one back end", referring("f.more", compose.MaxEntries, 1))
	refuse("the project a refer", referring("a.more", compose.MaxProjectEntries, 1))
	m.Put(t, referring("a.same", 0, each), referring("f.known", 0, each)) // known paths cost nothing
}

// TestVariantsAreBounded keeps as many variants as global services may have, each and together.
func TestVariantsAreBounded(t *testing.T) {
	t.Parallel()
	m := newHub(t)
	const globals = compose.MaxVariants / compose.MaxVariantsOfGlobal
	var all []catalog.ConfigVariant
	for i := range globals + 1 {
		global := &catalog.GlobalService{Metadata: catalog.Metadata{Name: fmt.Sprint("g", i)}}
		m.Put(t, global)
		for j := range compose.MaxVariantsOfGlobal {
			if i == globals && j > 0 {
				break
			}
			all = append(all, catalog.ConfigVariant{
				ID: fmt.Sprintf("%d-%d", i, j), GlobalUID: global.UID, Project: "default",
				References: map[string]string{"K": "absent://a#k"},
			})
		}
	}
	one := all[0]
	one.ID = "one"
	refused, err := m.Keep(t.Context(), append([]catalog.ConfigVariant{}, append(all[:compose.MaxVariantsOfGlobal:compose.MaxVariantsOfGlobal], one)...))
	if err != nil || len(refused) != 1 || refused["one"] == nil || refused["one"].Reason != reason.ConfigTooManyVariants || !strings.Contains(refused["one"].Message, "global service g0") {
		t.Errorf("got %v, %v, want that one variant of a global service is refused", refused, err)
	}
	last := all[len(all)-1].ID
	refused, err = m.Keep(t.Context(), all)
	if err != nil || len(refused) != 1 || refused[last] == nil || !strings.Contains(refused[last].Message, "all global services") {
		t.Errorf("got %v, %v, want that the last variant of all is refused", refused, err)
	}
}

// TestFailures has each call of an edit fail in turn. The edit fails with that error, and is made whole
// afterwards.
func TestFailures(t *testing.T) {
	t.Parallel()
	calls := 0
	for isDone := false; !isDone; calls++ {
		m := newHub(t)
		service := referring("app", 0, 2)
		service.Spec.ConfigSets = []string{"base"}
		set := &catalog.ConfigSet{Metadata: catalog.Metadata{Name: "base"}}
		set.Spec.Config = &catalog.Config{Values: map[string]string{"A": "1"}}
		m.Put(t, set, service)
		m.Answer(t, "vault", "p0", configs.Entry{Fields: configs.FieldsOf(map[string]string{"a": "x"})})
		m.Hold(t, "app@one")
		before, digest := m.Config(t, "app@one")
		next := referring("app", 1, 3)
		next.Spec.ConfigSets = service.Spec.ConfigSets
		revision := m.Revision(t)
		m.FailCall(calls + 1)
		err := m.Apply(t.Context(), next)
		if isDone = err == nil; isDone {
			break
		}
		if !errors.Is(err, composetest.ErrFailed) {
			t.Errorf("call %d: got %v, want the error of the store", calls+1, err)
		}
		if after, same := m.Config(t, "app@one"); same != digest || !maps.Equal(after.Secrets, before.Secrets) || m.Revision(t) != revision {
			t.Errorf("call %d: the edit failed, and left something", calls+1)
		}
	}
	if calls < 8 {
		t.Errorf("an edit makes %d calls, want one of each method", calls)
	}
}

// TestHeldConfigurationIsNotStored holds a service at a configuration that no edit stored.
func TestHeldConfigurationIsNotStored(t *testing.T) {
	t.Parallel()
	m := newHub(t)
	service := referring("app", 0, 0)
	service.Spec.Config.Values = map[string]string{"A": "1"}
	m.Put(t, service)
	m.HoldAt(service.UID, &compose.Held{StagedConfig: catalog.StagedConfig{Name: "gone"}})
	m.Put(t, service)
	held := m.Service(t, "app@one").HeldConfig
	if held == nil || !held.Waits || held.Problem == nil || held.Problem.Reason != reason.ConfigMissing || held.Problem.Since.IsZero() {
		t.Errorf("got %+v, want that the service waits", held)
	}
	all, err := compose.New(m, m.Now()).Compose(t.Context(), []string{service.UID})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := all[0].Planned(); !errors.Is(err, catalog.ErrUnavailable) {
		t.Errorf("got %v, want that the configuration is unavailable", err)
	}
	began := held.Problem.Since
	m.Put(t, service)
	if again := m.Service(t, "app@one").HeldConfig; !again.Problem.Since.Equal(began) {
		t.Errorf("got a problem since %v, want %v", again.Problem.Since, began)
	}
}

// TestNamesStayInTheirProject has services of two projects, and of one, hold the same secret. No
// digest shows that they do, except for names in one project.
func TestNamesStayInTheirProject(t *testing.T) {
	t.Parallel()
	m := newHub(t, "a", "b")
	digests, names := map[string]struct{}{}, map[string]int{}
	for _, name := range []string{"a.one", "a.two", "b.one"} {
		service := referring(name, 0, 0)
		service.Spec.Config.Secrets = map[string]secret.Text{"P": "x"}
		m.Put(t, service)
		stored := m.Service(t, service.Name)
		digests[stored.ConfigDigest] = struct{}{}
		names[stored.ConfigName]++
	}
	if len(digests) != 3 || len(names) != 2 {
		t.Errorf("got %d digests and %d names, want 3 and 2", len(digests), len(names))
	}
}
