// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/testkit/canarytest"
	"github.com/leatdev/leat/services/distributor"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// plant puts a canary into every kind of secret that documents have.
func (s *stage) plant(t *testing.T) *canarytest.Set {
	t.Helper()
	planted := &canarytest.Set{}
	put := planted.PlantWord // a part of a URL, too
	app := serviceDocument("app", "one", "demo", "app")
	app.GetService().Spec.Config = &fleetv1.ServiceConfig{Values: map[string]string{"SIZE": "small"}, Secrets: map[string]string{"PASSWORD": planted.Plant("service")}}
	set := setDocument("base", &fleetv1.ServiceConfig{Values: map[string]string{"A": "1"}, Secrets: map[string]string{"TOKEN": planted.Plant("set")}})
	global := globalDocument("everywhere", "one")
	global.GetGlobalService().Spec.Template.Config = &fleetv1.ServiceConfig{Secrets: map[string]string{"KEY": put("global")}}
	global.GetGlobalService().Spec.Overrides = []*fleetv1.ServiceOverride{{
		Name: "all", Clusters: &fleetv1.ClusterTarget{All: true}, Config: &fleetv1.ServiceConfig{Secrets: map[string]string{"KEY": put("override")}},
	}}
	basic := repositoryDocument("basic")
	basic.GetRepository().Spec.Credential = &gitcachev1.Credential{Method: &gitcachev1.Credential_Basic{
		Basic: &gitcachev1.BasicCredential{Username: "u", Password: planted.Plant("password")},
	}}
	basic.GetRepository().Spec.ProxyUrl = "https://u:" + put("proxy") + "@proxy.example:8080"
	webhook := fleetdoc.Of(&fleetv1.Notifier{Metadata: &typev1.Metadata{Name: "hook"}, Spec: &fleetv1.NotifierSpec{
		Sink: &fleetv1.NotifierSpec_Webhook{Webhook: &fleetv1.WebhookSink{Url: new("https://hook.example/" + put("url")), HmacKey: new(put("hmac"))}},
	}})
	provider := providerDocument("planted", "https://planted.example")
	provider.GetIdentityProvider().Spec.ClientSecret = new(put("client"))
	back := vaultDocument("https://vault.example", put("vault"))
	back.GetConfigBackend().Metadata.Name = "planted"
	documents := []*fleetv1.Document{app, set, global, basic, webhook, slackDocument("chat", "https://chat.example/"+put("slack")), provider, back}
	sent := ""
	for _, document := range documents {
		sent += protojson.Format(document)
	}
	if found := planted.Find(sent); len(found) < 11 {
		t.Fatalf("found only %q in the documents", found)
	}
	planted.Check(t, "the answer to an apply", protojson.Format(s.apply(t, documents...)))
	// A policy holds the services at what they have, and later secrets wait.
	s.apply(t, fleetdoc.Of(&fleetv1.RolloutPolicy{
		Metadata: &typev1.Metadata{Name: "waves"}, Spec: &fleetv1.RolloutPolicySpec{Services: []string{"app", "everywhere"}},
	}))
	s.waitTakenOver(t, 2)
	app.GetService().Spec.Config.Secrets["PASSWORD"] = put("later service")
	global.GetGlobalService().Spec.Template.Config.Secrets["KEY"] = put("later global")
	global.GetGlobalService().Spec.Overrides[0].Config.Secrets["KEY"] = put("later override")
	s.apply(t, app, global)
	for _, name := range []string{"app", "everywhere@one"} {
		if hold := s.service(t, name).GetStatus().GetHold(); !slices.Contains(hold.GetSpecChanges(), "configuration") {
			t.Errorf("got %v of %s, want that it is held at its earlier configuration", hold, name)
		}
	}
	return planted
}

// TestSecCanariesStayHidden puts a secret into every place of documents that keeps one, and searches for it
// in everything that people of each role can obtain: each call that changes nothing, an apply that is
// refused and one that is a dry run, and the hub's log and metrics.
func TestSecCanariesStayHidden(t *testing.T) {
	t.Parallel()
	log := &notes{}
	internal, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t, func(c *distributor.Config) {
		c.Serve.InternalListener = internal
		c.Telemetry.LogOutput, c.Telemetry.LogLevel = io.MultiWriter(log, t.Output()), "debug"
	})
	planted := s.plant(t)
	for _, c := range s.callers {
		if c.kind == people && !c.isAccess && c.again == nil && len(c.token) > 20 {
			planted.Add("token of "+c.name, c.token)
		}
	}
	// The names of a request come from the table of calls, and from the objects that were planted
	// beside them.
	others := map[catalog.Kind][]string{"Repository": {"basic"}, "Notifier": {"hook"}, "IdentityProvider": {"planted"}, "ConfigBackend": {"planted"}, "Service": {"everywhere@one"}}
	asked := 0
	for i, tried := range triedCalls(t) {
		if i%20 == 19 {
			s.renew(t)
		}
		method, r := tried.method, tried.right
		if options, _ := method.Options().(*descriptorpb.MethodOptions); options.GetIdempotencyLevel() != descriptorpb.MethodOptions_NO_SIDE_EFFECTS {
			continue
		}
		for _, c := range s.callers {
			if c.kind != people && c.kind != stranger && c.kind != ended || c.isAgain {
				continue
			}
			names := []string{r.name}
			if r.as != "" {
				names = append(names, r.as)
			}
			if r.name != "" {
				names = append(names, others[tried.kind]...)
			}
			for _, name := range names {
				asked++
				planted.Check(t, fmt.Sprintf("%s of %q to %s", tried.name, name, c.name), s.whole(t, method, c.token, r.with(name)))
			}
		}
	}
	if asked < 500 {
		t.Errorf("asked %d times, want every read by everybody", asked)
	}
	s.renew(t)
	for _, c := range s.callers {
		if c.kind != people || c.isAgain {
			continue
		}
		for _, isDry := range []bool{true, false} {
			// A changed value next to a secret is a text that messages about a document might quote.
			document := serviceDocument("app", "absent", "demo", "app")
			document.GetService().Spec.Config = &fleetv1.ServiceConfig{Secrets: map[string]string{"PASSWORD": planted.Plant("refused value"), "not a key": planted.Plant("refused key")}}
			res, err := s.fleet(t, c.token).Apply(t.Context(), &fleetv1.ApplyRequest{DryRun: isDry, Documents: []*fleetv1.Document{document}})
			planted.Check(t, "a refused apply to "+c.name, fmt.Sprint(protojson.Format(res), err))
		}
	}
	planted.Check(t, "the log", log.String())
	metrics, err := http.DefaultClient.Do(newRequest(t, http.MethodGet, "http://"+internal.Addr().String()+"/metrics", "", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = metrics.Body.Close() }()
	text, err := io.ReadAll(metrics.Body)
	if err != nil || !strings.Contains(string(text), "leat_") {
		t.Errorf("got %d bytes of metrics, %v", len(text), err)
	}
	planted.Check(t, "the metrics", string(text))
}

// whole makes a call and returns everything that is answered: of a stream, the first messages.
func (s *stage) whole(t *testing.T, method protoreflect.MethodDescriptor, token, request string) string {
	t.Helper()
	if !method.IsStreamingServer() {
		r := s.call(t, method, token, request, formPost)
		return fmt.Sprint(r.header, r.body, r.message)
	}
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(request)))
	req := newRequest(t, http.MethodPost, fmt.Sprintf("%s/%s/%s", s.url, method.Parent().FullName(), method.Name()), token, append(frame, request...))
	req.Header.Set("Content-Type", "application/connect+json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	head := make([]byte, 5)
	if _, err := io.ReadFull(res.Body, head); err != nil {
		return fmt.Sprint(res.Header) // refused without a message
	}
	message, err := io.ReadAll(io.LimitReader(res.Body, int64(binary.BigEndian.Uint32(head[1:]))))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(slices.Sorted(maps.Keys(res.Header)), res.Header, string(message))
}
