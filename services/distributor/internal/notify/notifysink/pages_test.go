// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notifysink_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/notify/notifysink"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/notice"
)

const uiURL = "https://leat.example.com/ui/"

// TestPages links an event of every kind, and several events, to a page that the web UI has.
func TestPages(t *testing.T) {
	t.Parallel()
	router, err := os.ReadFile("../../../../../web/src/shell/router.tsx")
	if err != nil {
		t.Fatal(err)
	}
	pages := notifysink.Pages{URL: uiURL}
	var seen []string
	for _, kind := range notice.Kinds() {
		m := notice.Example(kind, "the-id", now)
		got, isPage := strings.CutPrefix(pages.Of(m), uiURL)
		if !isPage {
			t.Errorf("%s: got %q", kind, got)
		}
		seen = append(seen, got)
		if several := pages.Of(m.Add(m.Events[0])); several != uiURL {
			t.Errorf("%s, twice: got %q, want the list of problems", kind, several)
		}
		if none := (notifysink.Pages{}).Of(m); none != "" {
			t.Errorf("%s: got %q of a hub without an address", kind, none)
		}
		folder, name, isNamed := strings.Cut(got, "/")
		if below, _, is := strings.Cut(name, "/"); is {
			if !strings.Contains(string(router), `path: "`+below+`/$"`) {
				t.Errorf("%s: the web UI has no page %s", kind, got)
			}
		} else if isNamed && name != "example" {
			t.Errorf("%s: %s does not end in the object's name", kind, got)
		}
		if !strings.Contains(string(router), `path: "/`+folder+`"`) {
			t.Errorf("%s: the web UI has no page %s", kind, got)
		}
	}
	slices.Sort(seen)
	want := []string{"", "access", "clusters/example", "configuration/backends/example", "fleet-sources/example", "global-services/example", "image-policies/example", "repositories/example", "rollouts/example", "services/example"}
	if got := slices.Compact(seen); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestMessagesLinkToPages sends a message to each receiver that shows links.
func TestMessagesLinkToPages(t *testing.T) {
	t.Parallel()
	var body map[string]any
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		body = nil
		_ = json.Unmarshal(text, &body)
	}))
	defer server.Close()
	commit := strings.Repeat("ab", 20)
	send := func(sink catalog.Sink, text string) map[string]any {
		t.Helper()
		d := delivery(sink, catalog.NotifierSecrets{URL: secret.Text(server.URL), Token: "the-token"})
		d.Notifier.Spec.Text = text
		d.Message.Events[0].Service = "shop/web"
		d.Commit, d.Tally, d.URL = notify.Commit{Repository: "shop.app", ID: commit}, notify.Tally{Healthy: 1}, "https://git.example/acme/shop"
		if _, err := sinksWith(notifysink.Pages{URL: uiURL}).Send(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		return body
	}
	const page = uiURL + "services/shop/web"
	if got, want := send(catalog.Sink{Type: catalog.SinkSlack}, "")["text"], "a &lt;text&gt; &amp; more\n<"+page+"|Open in Leat>"; got != want {
		t.Errorf("a chat got %q, want %q", got, want)
	}
	if got, want := send(catalog.Sink{Type: catalog.SinkSlack}, "'own'")["text"], "a &lt;text&gt; &amp; more"; got != want {
		t.Errorf("a chat got %q, want the text of the notifier alone", got)
	}
	if data, ok := send(catalog.Sink{Type: catalog.SinkWebhook}, "")["data"].(map[string]any); !ok || data["url"] != page {
		t.Errorf("an endpoint got %v, want %s", data, page)
	}
	for _, provider := range []string{catalog.ForgeGitHub, catalog.ForgeGitLab, catalog.ForgeGitea} {
		status := send(catalog.Sink{Type: catalog.SinkCommitStatus, Commit: &catalog.CommitSink{Provider: provider, URL: server.URL}}, "")
		if want := uiURL + "commits/shop/app@" + commit; status["target_url"] != want {
			t.Errorf("%s got %v, want %s", provider, status["target_url"], want)
		}
	}
}
