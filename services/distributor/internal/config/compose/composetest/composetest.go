// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package composetest has the tests that every store of configurations passes, together with the
// rule that composes them.
package composetest

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/config/layers"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Hub is a store and the means to change what configurations are composed of. Every change settles
// the configurations that it affects, in the same transaction. The suite names services by their
// paths, and back ends by their names.
type Hub interface {
	// Put stores valid objects, and returns them as they are stored. A service has its whole
	// configuration.
	Put(t *testing.T, objects ...catalog.Object) []catalog.Object
	// Answer stores the good answer of a back end for a path, and Fail stores a failed read. Both
	// report whether services obtain something else.
	Answer(t *testing.T, backend, path string, entry configs.Entry) (isChanged bool)
	Fail(t *testing.T, backend, path string, failed configs.Failed) (isChanged bool)
	// Hold has a rollout hold a service at its present configuration. Release ends that.
	Hold(t *testing.T, service string)
	Release(t *testing.T, service string)
	// Keep is as in catalog.Variants. Variant returns the state of a variant that is stored.
	Keep(ctx context.Context, variants []catalog.ConfigVariant) (map[string]*catalog.Problem, error)
	Variant(t *testing.T, id string) catalog.VariantState
	// Service returns a service as replicas read it, and Config what its agent is given.
	Service(t *testing.T, service string) *catalog.Service
	Config(t *testing.T, service string) (config catalog.Config, digest string)
	// Explain returns where the values of a service come from, by key.
	Explain(t *testing.T, service string) map[string]configs.Explained
	// Revision returns the number of the last change that readers notice.
	Revision(t *testing.T) int64
}

// Run runs the suite. open returns an empty hub for each test.
func Run(t *testing.T, open func(t *testing.T) Hub) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, subject){
		"order": testOrder, "masks": testMasks, "losses": testLosses, "quiet": testQuiet, "numbers": testNumbers, "bytes": testBytes,
		"bytes of back ends": testBackendBytes, "problems": testProblems, "held": testHeld, "shares": testShares, "variants": testVariants,
	} {
		t.Run(name, func(t *testing.T) {
			s := subject{open(t)}
			s.Put(t, &catalog.Cluster{Metadata: catalog.Metadata{Name: "one"}}, repository(), backend())
			test(t, s)
		})
	}
}

type (
	texts   = map[string]string
	secrets = map[string]secret.Text
)

// subject is a hub with a cluster, a repository, and the back end vault.
type subject struct{ Hub }

func repository() *catalog.Repository {
	r := &catalog.Repository{Metadata: catalog.Metadata{Name: "demo"}}
	r.Spec.URL = "https://git.example/demo"
	return r
}

func backend() *catalog.ConfigBackend {
	return &catalog.ConfigBackend{Metadata: catalog.Metadata{Name: "vault"}, Spec: catalog.ConfigBackendSpec{
		Vault:      &catalog.VaultBackend{URL: "https://vault.example", Auth: catalog.VaultByToken},
		Credential: "token", AllowedPaths: []string{"shop/*"}, Projects: []string{"default"},
	}}
}

// service returns a service of the cluster one. config may be nil.
func service(name string, config *catalog.Config, sets ...string) *catalog.Service {
	if config == nil {
		config = &catalog.Config{}
	}
	return &catalog.Service{Metadata: catalog.Metadata{Name: name + "@one"}, Spec: catalog.ServiceSpec{
		Cluster: "one", Sources: []catalog.Source{{Repository: "demo", Path: "app"}}, Config: config, ConfigSets: sets,
	}}
}

func set(name string, config *catalog.Config) *catalog.ConfigSet {
	return &catalog.ConfigSet{Metadata: catalog.Metadata{Name: name}, Spec: catalog.ConfigSetSpec{Config: config}}
}

// project is the project default, which lists sets.
func project(sets ...string) *catalog.Project {
	return &catalog.Project{Metadata: catalog.Metadata{Name: "default"}, Spec: catalog.ProjectSpec{ConfigSets: sets}}
}

func entry(fields texts) configs.Entry { return configs.Entry{Fields: configs.FieldsOf(fields)} }

// plain returns a configuration in a form whose differences may be printed.
func plain(c catalog.Config) texts {
	all := maps.Clone(c.Values)
	if all == nil {
		all = texts{}
	}
	for key, text := range c.Secrets {
		all["secret "+key] = text.Reveal()
	}
	return all
}

// want compares what the agent of a service is given, and returns the digest, which is the one in
// its plan.
func (s subject) want(t *testing.T, when, name string, want texts) string {
	t.Helper()
	stored := s.Service(t, name+"@one")
	planned := stored.ConfigDigest
	if stored.HeldConfig != nil {
		planned = stored.HeldConfig.Digest
	}
	config, digest := s.Config(t, name+"@one")
	if digest != planned {
		t.Errorf("%s: got the digest %q, want %q as in the plan", when, digest, planned)
	}
	if diff := cmp.Diff(want, plain(config)); diff != "" {
		t.Errorf("%s: %s is given (-want +got):\n%s", when, name, diff)
	}
	return digest
}

// problem compares the reason of the problem of a service, and whether it waits. Zero: no problem.
func (s subject) problem(t *testing.T, when, name string, want reason.Reason, waits bool) *catalog.Problem {
	t.Helper()
	stored := s.Service(t, name+"@one")
	got := reason.Reason(0)
	if stored.ConfigProblem != nil {
		got = stored.ConfigProblem.Reason
	}
	if got != want || stored.ConfigWaits != waits {
		t.Errorf("%s: %s has the problem %v and waits %t, want %v and %t", when, name, stored.ConfigProblem, stored.ConfigWaits, want, waits)
	}
	if waits && stored.ConfigDigest == "" {
		t.Errorf("%s: %s waits for nothing: it has no digest", when, name)
	}
	return stored.ConfigProblem
}

// quietly fails if do is a change that readers notice.
func (s subject) quietly(t *testing.T, what string, do func() bool) {
	t.Helper()
	before := s.Revision(t)
	if do() || s.Revision(t) != before {
		t.Errorf("%s begins a new version, and gives services nothing else", what)
	}
}

// testOrder has a key in each subset of five layers, as a value or as a secret. The highest layer
// wins, in whichever order the project and the service list their sets.
func testOrder(t *testing.T, s subject) {
	names := []string{"base", "more", "own", "last", "document"}
	all := make([]*catalog.Config, len(names))
	for i := range all {
		all[i] = &catalog.Config{Values: texts{}, Secrets: secrets{}}
	}
	subset := func(bits int) string { return fmt.Sprintf("K%05b", bits) }
	for bits := 1; bits < 1<<len(names); bits++ {
		for i, name := range names {
			switch {
			case bits>>i&1 == 0:
			case i%2 == 0:
				all[i].Values[subset(bits)] = name
			default:
				all[i].Secrets[subset(bits)] = secret.Text(name)
			}
		}
	}
	var digests []string
	for _, order := range [][]int{{0, 1, 2, 3, 4}, {1, 0, 3, 2, 4}} {
		s.Put(t, set("base", all[0]), set("more", all[1]), set("own", all[2]), set("last", all[3]),
			project(names[order[0]], names[order[1]]), service("app", all[4], names[order[2]], names[order[3]]))
		want, shadows := texts{}, map[string][]string{}
		for bits := 1; bits < 1<<len(names); bits++ {
			var found []int // the highest first
			for _, i := range order {
				if bits>>i&1 == 1 {
					found = append([]int{i}, found...)
				}
			}
			key := subset(bits)
			if found[0]%2 == 1 {
				key = "secret " + key
			}
			want[key] = names[found[0]]
			for _, i := range found[1:] {
				shadows[subset(bits)] = append(shadows[subset(bits)], names[i])
			}
		}
		digests = append(digests, s.want(t, fmt.Sprint("order ", order), "app", want))
		for key, x := range s.Explain(t, "app@one") {
			var got []string
			for _, shadow := range x.Shadows {
				got = append(got, shadow.Layer.Set)
			}
			if diff := cmp.Diff(shadows[key], got); diff != "" {
				t.Errorf("order %v: %s shadows (-want +got):\n%s", order, key, diff)
			}
		}
	}
	if digests[0] == digests[1] {
		t.Error("another order of sets with other values has the same digest")
	}
}

// testMasks shows that a higher layer has a key whole: a value that it hides changes nothing, and
// does not return while the higher layer leads nowhere.
func testMasks(t *testing.T, s subject) {
	low := func(text string) *catalog.ConfigSet {
		return set("low", &catalog.Config{Values: texts{"A": text, "B": "low", "C": "low"}})
	}
	high := &catalog.Config{Secrets: secrets{"A": "high"}, References: texts{"B": "vault://shop/db#password", "C": "hub://low/NONE?"}}
	s.Put(t, low("1"), service("app", high, "low"))
	s.want(t, "a reference that waits", "app", texts{"secret A": "high"})
	s.problem(t, "a reference that waits", "app", reason.ConfigMissing, true)
	s.Answer(t, "vault", "shop/db", entry(texts{"password": "p"}))
	before := s.want(t, "answered", "app", texts{"secret A": "high", "secret B": "p"})
	s.problem(t, "answered", "app", 0, false)
	at := s.Revision(t)
	s.Put(t, low("2"))
	if s.want(t, "a hidden value", "app", texts{"secret A": "high", "secret B": "p"}) != before {
		t.Error("a hidden value changes the digest")
	}
	if s.Revision(t) == at {
		t.Error("an edit of a set is not a change of the catalog")
	}
	x := s.Explain(t, "app@one")["A"]
	if len(x.Shadows) != 1 || x.Shadows[0].Layer != (layers.Origin{Kind: layers.OfSet, Set: "low"}) || x.Layer.Kind != layers.OfService {
		t.Errorf("got %+v, want a secret of the document that shadows one of the set", x)
	}
	s.Put(t, service("app", &catalog.Config{}, "low"))
	s.want(t, "no mask", "app", texts{"A": "2", "B": "low", "C": "low"})
	s.Put(t, service("app", &catalog.Config{References: texts{"A": "hub://low/NONE?", "B": "hub://low/NONE?", "C": "hub://low/NONE?"}}, "low"))
	if s.want(t, "nothing but masks", "app", texts{}) == "" {
		t.Error("a configuration whose values are all missing has no digest")
	}
}

// testLosses shows what a service loses, and what it keeps.
func testLosses(t *testing.T, s subject) {
	both := texts{"USER": "vault://shop/db#user", "PASSWORD": "vault://shop/db#password"}
	s.Put(t, set("base", &catalog.Config{Values: texts{"A": "1"}, Secrets: secrets{"S": "s"}}), service("app", &catalog.Config{References: both}, "base"))
	s.Answer(t, "vault", "shop/db", entry(texts{"user": "u1", "password": "p1"}))
	first := texts{"A": "1", "secret S": "s", "secret USER": "u1", "secret PASSWORD": "p1"}
	digest := s.want(t, "first", "app", first)

	// Values of one entry are of one version: half of an answer gives nothing.
	s.Answer(t, "vault", "shop/db", entry(texts{"user": "u2"}))
	if s.want(t, "half of an answer", "app", first) != digest {
		t.Error("the digest changes, and the values do not")
	}
	s.problem(t, "half of an answer", "app", reason.ConfigMissing, false)
	s.Fail(t, "vault", "shop/db", configs.Failed{Message: "denied", IsRefused: true})
	s.want(t, "denied", "app", first)

	// A service that comes later is given nothing of what the back end refuses.
	s.Put(t, service("late", &catalog.Config{References: both}))
	s.want(t, "late", "late", texts{})
	s.problem(t, "late", "late", reason.ConfigMissing, true)

	// A reference that leaves the document takes its value along, and so does a set.
	s.Put(t, service("app", nil, "base"))
	s.want(t, "without references", "app", texts{"A": "1", "secret S": "s"})
	s.problem(t, "without references", "app", 0, false)
	s.Put(t, service("app", &catalog.Config{References: both}, "base"))
	s.want(t, "references again", "app", texts{"A": "1", "secret S": "s"})
	s.problem(t, "references again", "app", reason.ConfigMissing, true)
	s.Put(t, set("base", &catalog.Config{Values: texts{"A": "1"}}))
	s.want(t, "a secret that is gone", "app", texts{"A": "1"})
	s.Put(t, service("app", nil))
	if digest := s.want(t, "nothing", "app", texts{}); digest != "" {
		t.Errorf("got the digest %q of nothing", digest)
	}
}

// testQuiet repeats stored content. No version begins again, and an earlier content has its earlier
// digest.
func testQuiet(t *testing.T, s subject) {
	s.Put(t, set("base", &catalog.Config{Values: texts{"A": "1"}}), service("app", &catalog.Config{References: texts{"P": "vault://shop/db#password"}}, "base"))
	answer := func(password, other string) func() bool {
		return func() bool {
			return s.Answer(t, "vault", "shop/db", entry(texts{"password": password, "other": other}))
		}
	}
	if !answer("p1", "o1")() {
		t.Error("a first answer gives services nothing")
	}
	first := s.want(t, "first", "app", texts{"A": "1", "secret P": "p1"})
	s.quietly(t, "the same answer", answer("p1", "o1"))
	s.quietly(t, "another field of an entry", answer("p1", "o2"))
	s.quietly(t, "another version of an entry", func() bool {
		again := entry(texts{"password": "p1", "other": "o2"})
		again.Version = "2"
		return s.Answer(t, "vault", "shop/db", again)
	})
	s.quietly(t, "a failure that is not shown", func() bool {
		return s.Fail(t, "vault", "shop/db", configs.Failed{Message: "away"})
	})
	before := s.Revision(t)
	if !answer("p2", "o2")() || s.Revision(t) != before+1 {
		t.Error("another value does not begin a new version")
	}
	if s.want(t, "second", "app", texts{"A": "1", "secret P": "p2"}) == first {
		t.Error("another value has the same digest")
	}
	if answer("p1", "o1")(); s.want(t, "first again", "app", texts{"A": "1", "secret P": "p1"}) != first {
		t.Error("the first content has another digest the second time")
	}
	// A restart of pods and a reference that only agents follow are parts of a configuration.
	s.Put(t, service("app", &catalog.Config{References: texts{"P": "vault://shop/db#password"}, Restart: true}, "base"))
	restarting := s.want(t, "restarting", "app", texts{"A": "1", "secret P": "p1"})
	s.Put(t, service("app", &catalog.Config{References: texts{"P": "vault://shop/db#password", "C": "cluster://shop/db#x"}}, "base"))
	if inCluster := s.want(t, "in the cluster", "app", texts{"A": "1", "secret P": "p1"}); restarting == first || inCluster == first || restarting == inCluster {
		t.Error("the digest says nothing of restarts, or of references that the agent follows")
	}
}

// testNumbers composes as many keys as are allowed, and one more.
func testNumbers(t *testing.T, s subject) {
	part := func(prefix string, n int) *catalog.Config {
		values := texts{}
		for i := range n {
			values[fmt.Sprintf("%s%d", prefix, i)] = "v"
		}
		return &catalog.Config{Values: values}
	}
	s.Put(t, set("base", part("A", catalog.MaxConfigKeys/2)), service("app", part("B", catalog.MaxConfigKeys/2), "base"))
	if config, _ := s.Config(t, "app@one"); len(config.Values) != catalog.MaxConfigKeys {
		t.Errorf("got %d keys, want %d", len(config.Values), catalog.MaxConfigKeys)
	}
	s.problem(t, "as many as allowed", "app", 0, false)
	s.Put(t, set("base", part("A", catalog.MaxConfigKeys/2+1)))
	s.problem(t, "one more", "app", reason.ConfigTooLarge, true)
	s.want(t, "one more", "app", texts{})
	s.Put(t, service("app", part("A", catalog.MaxConfigKeys/2), "base"))
	s.problem(t, "the same keys", "app", 0, false)
}

// testBytes composes as many bytes as are allowed, and one more.
func testBytes(t *testing.T, s subject) {
	const value = 64 << 10
	part := func(prefix string, more int) *catalog.Config {
		values := texts{}
		for i := range 4 {
			values[fmt.Sprintf("%s%d", prefix, i)] = strings.Repeat("x", value-2)
		}
		last := prefix + "0"
		values[last] = values[last][:value-2-1+more]
		return &catalog.Config{Values: values}
	}
	s.Put(t, set("base", part("A", 1)), service("app", part("B", 1), "base"))
	s.problem(t, "as many as allowed", "app", 0, false)
	if config, _ := s.Config(t, "app@one"); len(config.Values) != 8 {
		t.Errorf("got %d keys, want 8", len(config.Values))
	}
	s.Put(t, set("base", part("A", 0)))
	s.problem(t, "one less", "app", 0, false)
	s.Put(t, set("base", part("AA", 1)))
	s.problem(t, "four more", "app", reason.ConfigTooLarge, true)
	s.want(t, "four more", "app", texts{})
}

// testBackendBytes has a back end answer with more than a configuration may hold. The service keeps
// all that it had.
func testBackendBytes(t *testing.T, s subject) {
	references, small, large := texts{}, texts{}, texts{}
	want := texts{}
	for i := range 9 {
		name := fmt.Sprint("k", i)
		references["K"+name], small[name], large[name] = "vault://shop/big#"+name, "s"+name, strings.Repeat("x", 60<<10)
		want["secret K"+name] = "s" + name
	}
	s.Put(t, service("app", &catalog.Config{References: references}))
	s.Answer(t, "vault", "shop/big", entry(small))
	digest := s.want(t, "small", "app", want)
	s.Answer(t, "vault", "shop/big", entry(large))
	if s.want(t, "large", "app", want) != digest {
		t.Error("values that are too large change the digest")
	}
	s.problem(t, "large", "app", reason.ConfigMissing, false)
}

// testProblems shows that a problem keeps the time at which it began, and that a heavier one hides a
// lighter one.
func testProblems(t *testing.T, s subject) {
	s.Put(t, service("app", &catalog.Config{References: texts{"P": "vault://shop/db#password"}}))
	began := s.problem(t, "never asked", "app", reason.ConfigMissing, true)
	if began == nil || began.Since.IsZero() {
		t.Fatalf("got %v, want a problem with its beginning", began)
	}
	if !s.Fail(t, "vault", "shop/db", configs.Failed{Message: "away"}) {
		t.Error("another message is not shown")
	}
	if p := s.problem(t, "away", "app", reason.ConfigMissing, true); p == nil || !p.Since.Equal(began.Since) || p.Message == began.Message {
		t.Errorf("got %v, want another message since %v", p, began.Since)
	}
	s.quietly(t, "the same failure", func() bool { return s.Fail(t, "vault", "shop/db", configs.Failed{Message: "away"}) })
	s.Answer(t, "vault", "shop/db", entry(texts{"password": "p"}))
	s.problem(t, "good", "app", 0, false)
	s.Fail(t, "vault", "shop/db", configs.Failed{Message: "away", IsOverdue: true})
	s.problem(t, "overdue", "app", reason.ConfigStale, false)
	closed := backend()
	closed.Spec.AllowedPaths = []string{"other/*"}
	s.Put(t, closed)
	s.problem(t, "closed", "app", reason.ConfigMissing, false)
	s.want(t, "closed", "app", texts{"secret P": "p"})
}

// testHeld holds a service at its configuration while its document changes.
func testHeld(t *testing.T, s subject) {
	of := func(path string) *catalog.Service {
		return service("app", &catalog.Config{Values: texts{"PATH": path}, References: texts{"P": "vault://" + path + "#password"}})
	}
	s.Put(t, of("shop/a"), service("other", &catalog.Config{Values: texts{"PATH": "shop/a"}, References: texts{"P": "vault://shop/a#password"}}))
	s.Answer(t, "vault", "shop/a", entry(texts{"password": "a1"}))
	was := texts{"PATH": "shop/a", "secret P": "a1"}
	digest := s.want(t, "before", "app", was)
	app, other := s.Service(t, "app@one"), s.Service(t, "other@one")
	if app.ConfigName == "" || app.ConfigName != other.ConfigName || app.ConfigDigest == other.ConfigDigest {
		t.Errorf("got the names %q and %q, want one name and two digests", app.ConfigName, other.ConfigName)
	}
	s.Put(t, service("third", &catalog.Config{Values: texts{"PATH": "shop/a"}, References: texts{"P": "vault://shop/b#password"}}))
	if third := s.Service(t, "third@one").ConfigName; third == "" || third == app.ConfigName {
		t.Errorf("got the name %q, want another one for another reference", third)
	}
	s.Hold(t, "app@one")
	if s.want(t, "held at its own", "app", was) != digest || s.Service(t, "app@one").HeldConfig != nil {
		t.Error("holding a service at its own configuration changes it")
	}
	s.Put(t, of("shop/b"))
	if s.want(t, "an edit", "app", was) != digest {
		t.Error("an edit changes the digest of a service that is held")
	}
	if held := s.Service(t, "app@one"); held.HeldConfig == nil || held.HeldConfig.Waits || !held.ConfigWaits {
		t.Errorf("got %+v, want that the service's own configuration waits, and the held one does not", held)
	}
	s.Answer(t, "vault", "shop/b", entry(texts{"password": "b1"}))
	s.want(t, "its own is answered", "app", was)
	s.Answer(t, "vault", "shop/a", entry(texts{"password": "a2"}))
	was["secret P"] = "a2"
	if s.want(t, "rotated", "app", was) == digest {
		t.Error("a rotation does not reach a service that is held")
	}
	// While the back end refuses the path, the value from before stays in use, also with the earlier
	// document again.
	s.Fail(t, "vault", "shop/a", configs.Failed{Message: "denied", IsRefused: true})
	s.want(t, "denied", "app", was)
	s.Put(t, of("shop/a"))
	s.want(t, "the earlier document", "app", was)
	if held := s.Service(t, "app@one"); held.HeldConfig != nil || held.ConfigName != app.ConfigName {
		t.Errorf("got %+v, want that the service has its own configuration again", held)
	}
	s.Put(t, of("shop/b"))
	s.Release(t, "app@one")
	s.want(t, "released", "app", texts{"PATH": "shop/b", "secret P": "b1"})

	s.Put(t, service("none", nil))
	s.Hold(t, "none@one")
	s.Put(t, service("none", &catalog.Config{Values: texts{"A": "1"}}))
	s.want(t, "held at none", "none", texts{})
}

// testShares takes a share back: sets that are listed stay in use, and references to them wait.
func testShares(t *testing.T, s subject) {
	platform := func(sets ...string) *catalog.Project {
		p := &catalog.Project{Metadata: catalog.Metadata{Name: "platform"}}
		if len(sets) > 0 {
			p.Spec.Shares = []catalog.ProjectShare{{Projects: catalog.Selection{Names: []string{"default"}}, ConfigSets: catalog.Selection{Names: sets}}}
		}
		return p
	}
	s.Put(t, platform("open"), set("platform.open", &catalog.Config{Values: texts{"A": "open"}}),
		service("app", &catalog.Config{References: texts{"B": "hub://platform/open/A"}}, "platform.open"))
	digest := s.want(t, "shared", "app", texts{"A": "open", "B": "open"})
	s.Put(t, platform())
	s.want(t, "taken back", "app", texts{"A": "open"})
	s.problem(t, "taken back", "app", reason.ConfigMissing, true)
	if name := s.Service(t, "app@one").ConfigName; name != "" {
		t.Errorf("got the name %q of a configuration that refers to a missing value", name)
	}
	s.Put(t, platform("open"))
	if s.want(t, "shared again", "app", texts{"A": "open", "B": "open"}) != digest {
		t.Error("the content from before has another digest")
	}
}

// testVariants keeps variants of a global service, which are given what others of it were given by
// the same references.
func testVariants(t *testing.T, s subject) {
	global := &catalog.GlobalService{Metadata: catalog.Metadata{Name: "web"}, Spec: catalog.GlobalServiceSpec{
		Clusters: catalog.ClusterTarget{ClusterSelection: catalog.ClusterSelection{All: true}},
		Template: catalog.ServiceTemplate{Spec: catalog.ServiceSpec{Sources: []catalog.Source{{Repository: "demo", Path: "app"}}}},
	}}
	uid := s.Put(t, global)[0].Meta().UID
	variant := func(id string, references texts) catalog.ConfigVariant {
		return catalog.ConfigVariant{ID: id, GlobalUID: uid, Project: "default", References: references}
	}
	keep := func(variants ...catalog.ConfigVariant) {
		t.Helper()
		if refused, err := s.Keep(t.Context(), variants); err != nil || len(refused) > 0 {
			t.Fatalf("got %v, %v, want all variants kept", refused, err)
		}
	}
	first := variant("v1", texts{"P": "vault://shop/db#password"})
	keep(first)
	if got := s.Variant(t, "v1"); !got.Waits || got.Problem == nil || got.Problem.Since.IsZero() {
		t.Errorf("got %+v, want that a variant waits for an answer", got)
	}
	if !s.Answer(t, "vault", "shop/db", entry(texts{"password": "p1"})) {
		t.Error("an answer gives a variant nothing")
	}
	given := s.Variant(t, "v1")
	if given.Waits || given.Problem != nil || given.Digest == "" {
		t.Errorf("got %+v, want a variant with its values", given)
	}
	s.quietly(t, "keeping a variant twice", func() bool { keep(first); return false })
	s.quietly(t, "the same answer", func() bool { return s.Answer(t, "vault", "shop/db", entry(texts{"password": "p1"})) })
	s.quietly(t, "a variant of a global service that is gone", func() bool {
		keep(catalog.ConfigVariant{ID: "other", GlobalUID: "gone", Project: "default", References: first.References})
		return false
	})
	// The back end refuses the path now: a new variant has only what its global service was given.
	s.Fail(t, "vault", "shop/db", configs.Failed{Message: "denied", IsRefused: true})
	keep(variant("v2", texts{"P": "vault://shop/db#password", "O": "vault://shop/db#other?"}), variant("v3", texts{"Q": "vault://shop/db#password"}))
	if got := s.Variant(t, "v2"); got.Digest != given.Digest || got.Problem == nil || got.Problem.Reason != reason.ConfigMissing {
		t.Errorf("got %+v, want what the first variant was given", got)
	}
	if got := s.Variant(t, "v3"); !got.Waits {
		t.Errorf("got %+v, want that another key waits", got)
	}
	if got := s.Variant(t, "v1"); got.Digest != given.Digest {
		t.Errorf("got %+v, want that the variant keeps its values", got)
	}
}
