// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package argocd

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/cli/internal/migration"
)

// projectWindow is a window of an AppProject, and the Applications that it is for.
type projectWindow struct {
	schedule, timeZone                 string
	duration                           time.Duration
	isDenying, allowsManual            bool
	applications, namespaces, clusters []string
}

// maxPatterns bounds the windows of a project with their patterns: each Application is compared with all of them.
const maxPatterns = 1000

// windowsOf returns the windows of a project.
func windowsOf(o migration.Object) []projectWindow {
	var windows []projectWindow
	patterns := 0
	for _, fields := range o.Fields.Part("spec").Parts("syncWindows") {
		duration, err := time.ParseDuration(fields.Text("duration"))
		w := projectWindow{
			schedule: fields.Text("schedule"), timeZone: fields.Text("timeZone"), duration: duration, isDenying: fields.Text("kind") == "deny",
			applications: fields.Texts("applications"), namespaces: fields.Texts("namespaces"), clusters: fields.Texts("clusters"),
		}
		w.allowsManual, _ = fields.Bool("manualSync")
		fields.Skip("description")
		fields.Without(migration.Differs, "an Application has the window if one of its lists matches", "andOperator")
		if patterns += 1 + len(w.applications) + len(w.namespaces) + len(w.clusters); patterns > maxPatterns {
			fields.Note("", migration.Missing, "write the window into policy.windows of the services: the project has too many windows and patterns")
			continue
		}
		if err != nil || w.schedule == "" {
			fields.Note("", migration.Missing, "write the window into policy.windows of the services: its schedule or its duration is not one")
			continue
		}
		windows = append(windows, w)
	}
	return windows
}

// covers reports whether a window is for an Application.
func (w projectWindow) covers(name string, destination *migration.Fields) bool {
	matches := func(patterns []string, texts ...string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			return slices.ContainsFunc(texts, func(text string) bool {
				isMatch, err := path.Match(strings.ReplaceAll(pattern, "/", "|"), strings.ReplaceAll(text, "/", "|"))
				return err == nil && isMatch && text != ""
			})
		})
	}
	return matches(w.applications, name) || matches(w.namespaces, destination.Text("namespace")) ||
		matches(w.clusters, destination.Text("server"), destination.Text("name"))
}
