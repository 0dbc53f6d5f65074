// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notifysink

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// commitID is the id of a commit. Repositories that are not Git's have none.
var commitID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// stateOf returns the state of a commit in a status, as GitHub and Gitea call it, and a sentence.
func stateOf(t notify.Tally) (state, description string) {
	switch {
	case t.Failed > 0:
		state = "failure"
	case t.Pending > 0 || t.Healthy == 0:
		state = "pending"
	default:
		state = "success"
	}
	return state, fmt.Sprintf("%d healthy, %d failed, %d in progress", t.Healthy, t.Failed, t.Pending)
}

// gitLabState returns the state as GitLab calls it.
func gitLabState(state string) string {
	switch state {
	case "failure":
		return "failed"
	case "pending":
		return "running"
	}
	return state
}

// forgePath returns the forge's name of a repository: the path of its URL.
func forgePath(repository string) (string, bool) {
	text := repository
	if !strings.Contains(text, "://") { // the form of scp: user@host:path
		if _, rest, ok := strings.Cut(text, ":"); ok {
			text = "ssh://host/" + rest
		}
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", false
	}
	name := strings.TrimSuffix(strings.Trim(path.Clean("/"+u.Path), "/"), ".git")
	return name, strings.Contains(name, "/")
}

func (s *Sinks) status(ctx context.Context, d notify.Delivery) (string, error) {
	sink := d.Notifier.Spec.Sink.Commit
	if d.Tally == (notify.Tally{}) {
		return "nothing is made of the commit any more", nil
	}
	name, ok := forgePath(d.URL)
	if !commitID.MatchString(d.Commit.ID) || !ok {
		return "", &notify.RefusedError{Message: "the repository or its commit has no name that a forge knows", Permanent: true}
	}
	state, description := stateOf(d.Tally)
	status := cmp.Or(sink.Context, catalog.DefaultStatusContext)
	base, token := strings.TrimRight(sink.URL, "/"), d.Secrets.Token.Reveal()
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
	fields := map[string]string{"state": state, "description": description, "context": status}
	var target string
	switch sink.Provider {
	case catalog.ForgeGitHub:
		header.Set("Authorization", "Bearer "+token)
		target = base + "/repos/" + escaped(name) + "/statuses/" + d.Commit.ID
	case catalog.ForgeGitea:
		header.Set("Authorization", "token "+token)
		target = base + "/api/v1/repos/" + escaped(name) + "/statuses/" + d.Commit.ID
	case catalog.ForgeGitLab:
		header.Set("Private-Token", token)
		target = base + "/api/v4/projects/" + url.PathEscape(name) + "/statuses/" + d.Commit.ID
		fields = map[string]string{"state": gitLabState(state), "description": description, "name": status}
	}
	if page := s.p.Pages.commit(d.Commit); page != "" {
		fields["target_url"] = page // the name of all three
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return "", fmt.Errorf("write status: %w", err)
	}
	return s.post(ctx, d, target, header, body)
}

// escaped returns a path whose parts are escaped.
func escaped(name string) string { return (&url.URL{Path: name}).EscapedPath() }
