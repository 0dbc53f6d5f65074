// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestSecRequestsAreOneVisibleLine asks with texts that would control a terminal, a chat or a log,
// or that would show something else than they hold; and beyond the bounds of a request.
func TestSecRequestsAreOneVisibleLine(t *testing.T) {
	t.Parallel()
	berlin := catalog.AccessBindingSpec{Role: catalog.RoleOperator, Clusters: catalog.ClusterSelection{Names: []string{"berlin"}}}
	for name, c := range map[string]struct {
		change func(*catalog.AccessRequestSpec)
		field  string // empty: the request is valid
	}{
		"as it is":             {func(*catalog.AccessRequestSpec) {}, ""},
		"in another script":    {func(s *catalog.AccessRequestSpec) { s.Reason = "本番のウェブが停止　INC-42 🚒" }, ""},
		"500 characters":       {func(s *catalog.AccessRequestSpec) { s.Reason = strings.Repeat("ü", 500) }, ""},
		"501 characters":       {func(s *catalog.AccessRequestSpec) { s.Reason = strings.Repeat("ü", 501) }, "spec.reason"},
		"without a reason":     {func(s *catalog.AccessRequestSpec) { s.Reason = "" }, "spec.reason"},
		"a reason of spaces":   {func(s *catalog.AccessRequestSpec) { s.Reason = "   " }, "spec.reason"},
		"two lines":            {func(s *catalog.AccessRequestSpec) { s.Reason = "a\nlevel=INFO msg=approved" }, "spec.reason"},
		"a carriage return":    {func(s *catalog.AccessRequestSpec) { s.Reason = "a\rb" }, "spec.reason"},
		"a separator of lines": {func(s *catalog.AccessRequestSpec) { s.Reason = "a\u2028b" }, "spec.reason"},
		"an escape sequence":   {func(s *catalog.AccessRequestSpec) { s.Reason = "\x1b[2Jgone" }, "spec.reason"},
		"a C1 control":         {func(s *catalog.AccessRequestSpec) { s.Reason = "a\u009b2Jb" }, "spec.reason"},
		"another direction":    {func(s *catalog.AccessRequestSpec) { s.Reason = "a\u202eb" }, "spec.reason"},
		"a hidden character":   {func(s *catalog.AccessRequestSpec) { s.Reason = "a\u200bb" }, "spec.reason"},
		"no UTF-8":             {func(s *catalog.AccessRequestSpec) { s.Reason = "a\xff" }, "spec.reason"},
		"five minutes":         {func(s *catalog.AccessRequestSpec) { s.Duration = 5 * time.Minute }, ""},
		"less":                 {func(s *catalog.AccessRequestSpec) { s.Duration = 5*time.Minute - time.Second }, "spec.duration"},
		"seven days":           {func(s *catalog.AccessRequestSpec) { s.Duration = 7 * 24 * time.Hour }, ""},
		"more":                 {func(s *catalog.AccessRequestSpec) { s.Duration = 7*24*time.Hour + time.Second }, "spec.duration"},
		"no time":              {func(s *catalog.AccessRequestSpec) { s.Duration = 0 }, "spec.duration"},
		"a part of a second":   {func(s *catalog.AccessRequestSpec) { s.Duration = time.Hour + time.Millisecond }, "spec.duration"},
		"a role of one's own":  {func(s *catalog.AccessRequestSpec) { s.Access.Role = "on-call" }, ""},
		"without a role":       {func(s *catalog.AccessRequestSpec) { s.Access.Role = catalog.RoleNone }, "spec.role"},
		"without a scope":      {func(s *catalog.AccessRequestSpec) { s.Access.Clusters = catalog.ClusterSelection{} }, "spec.clusters"},
		"a project":            {func(s *catalog.AccessRequestSpec) { s.Access.Projects.Names = []string{"shop"} }, ""},
		"many services": {func(s *catalog.AccessRequestSpec) {
			s.Access.Services = strings.Split(strings.Repeat("web ", 257)+"web", " ")
		}, "spec.services"},
	} {
		spec := catalog.AccessRequestSpec{Requester: "ada", Access: berlin, Duration: time.Hour, Reason: "INC-42: web is down"}
		c.change(&spec)
		request := &catalog.AccessRequest{Metadata: catalog.Metadata{Name: "access-x"}, Spec: spec}
		err := request.Validate()
		if e, ok := errors.AsType[*fielderr.Error](err); ok != (c.field != "") || ok && e.Path != c.field {
			t.Errorf("%s: got %v, want an error about %q", name, err, c.field)
		}
	}
}
