// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// subject is an identity as seen by a cluster.
type subject struct {
	Username string              `json:"username"`
	UID      string              `json:"uid"`
	Groups   []string            `json:"groups"`
	Extra    map[string][]string `json:"extra"`
}

// whoami returns the identity that the cluster sees of a person who comes through the tunnel.
// Direct callers impersonate it.
func (r *rig) whoami(t *testing.T) subject {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		r.url(transports()[0].name)+"/apis/authentication.k8s.io/v1/selfsubjectreviews",
		strings.NewReader(`{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := r.people.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var review struct{ Status struct{ UserInfo subject } }
	if err := json.NewDecoder(response.Body).Decode(&review); err != nil || response.StatusCode != http.StatusCreated {
		t.Fatalf("review of self: got %s %v", response.Status, err)
	}
	me := review.Status.UserInfo
	// The API server adds this group to every authenticated user.
	me.Groups = slices.DeleteFunc(me.Groups, func(group string) bool { return group == "system:authenticated" })
	if me.Username == "" || len(me.Groups) == 0 {
		t.Fatalf("review of self: got %+v, want a user with groups", me)
	}
	return me
}

// kubeconfigFile holds the fields that are read of a kubeconfig.
type kubeconfigFile struct {
	Clusters []struct{ Cluster map[string]any }
	Users    []struct{ User map[string]any }
}

func parseKubeconfig(t *testing.T, text []byte) kubeconfigFile {
	t.Helper()
	var file kubeconfigFile
	if err := yaml.Unmarshal(text, &file); err != nil || len(file.Clusters) == 0 || len(file.Users) == 0 {
		t.Fatalf("read kubeconfig: %v", err)
	}
	return file
}
