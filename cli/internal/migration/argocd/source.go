// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package argocd

import (
	"fmt"
	"strings"

	"github.com/leatdev/leat/cli/internal/migration"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// sources reads spec.source or spec.sources. It reports whether the service can deliver anything.
func (a *app) sources() bool {
	all := a.fields.Parts("sources")
	if single := a.fields.Part("source"); len(all) == 0 && !single.IsEmpty() {
		all = []*migration.Fields{single}
	}
	if hydrator := a.fields.Part("sourceHydrator"); !hydrator.IsEmpty() {
		return a.hydrated(hydrator)
	}
	if len(all) == 0 {
		a.fields.Note("source", migration.Refused, "it has no source")
		return false
	}
	for _, fields := range all {
		switch {
		case fields.Text("repoURL") == "":
			fields.Note("repoURL", migration.Refused, "it has no URL; if it is a patch, import what kustomize makes of its folder")
			return false
		case fields.Has("plugin"):
			fields.Note("plugin", migration.Refused, "Leat runs no plugins: make the objects by one of its renderers, or write them to Git before (docs/guides/renderers.md)")
			return false
		case !accepted(fields, upstreamOf(fields, migration.NewRepositories(""))):
			return false
		}
	}
	named := map[string]*values{}
	var contents []*content
	for _, fields := range all {
		ref := fields.Text("ref")
		if ref != "" {
			named[ref] = &values{source: &typev1.Source{
				Repository: a.repository(fields), Ref: gitRef(fields, fields.Text("targetRevision")), Root: ".", Mount: "values-" + migration.Label(ref),
			}}
		}
		if ref == "" || fields.Has("path") || fields.Has("chart") {
			contents = append(contents, a.content(fields))
		}
	}
	a.place(contents)
	for _, c := range contents {
		a.spec.Sources = append(a.spec.Sources, c.source)
		a.spec.Render = append(a.spec.Render, a.step(c, named))
	}
	for _, fields := range all {
		if v := named[fields.Text("ref")]; v != nil && v.isUsed {
			a.spec.Sources = append(a.spec.Sources, v.source)
			v.isUsed = false // once
		}
	}
	if len(contents) == 0 {
		a.fields.Note("sources", migration.Refused, "none of its sources makes objects")
	}
	return len(contents) > 0
}

// hydrated delivers the branch that Argo CD's hydrator fills.
func (a *app) hydrated(hydrator *migration.Fields) bool {
	from, to := hydrator.Part("drySource"), hydrator.Part("syncSource")
	from.Skip("path", "targetRevision")
	hydrator.Skip("hydrateTo")
	hydrator.Note("", migration.Check, "the service delivers the branch that Argo CD fills; keep something that fills it, or deliver the folder that it is made of")
	if !accepted(from, upstreamOf(from, migration.NewRepositories(""))) {
		return false
	}
	a.spec.Sources = []*typev1.Source{{
		Repository: a.repository(from), Path: migration.Folder(to.Text("path")),
		Ref: &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: to.Text("targetBranch")}},
	}}
	a.spec.Render = migration.AsIs()
	return true
}

// repository returns the name of the repository of a source.
func (a *app) repository(fields *migration.Fields) string {
	return a.named(fields, upstreamOf(fields, a.project.repositories))
}

// isRegistry reports whether a source is in an OCI registry. A URL of one without a scheme has a chart.
func isRegistry(fields *migration.Fields) bool {
	address := strings.TrimSpace(fields.Text("repoURL"))
	return strings.HasPrefix(address, "oci://") || fields.Text("chart") != "" && !strings.Contains(address, "://")
}

// upstreamOf returns the repository of a source among others.
func upstreamOf(fields *migration.Fields, among *migration.Repositories) *fleetv1.Document {
	address, chart := fields.Text("repoURL"), fields.Text("chart")
	switch {
	case isRegistry(fields) && chart != "":
		return among.OCI(strings.TrimRight(address, "/") + "/" + chart)
	case isRegistry(fields):
		return among.OCI(address)
	case chart != "":
		return among.Helm(address)
	default:
		return among.Git(address)
	}
}

// content reads where a source is.
func (a *app) content(fields *migration.Fields) *content {
	c := &content{fields: fields, source: &typev1.Source{}}
	revision := fields.Text("targetRevision")
	fields.Skip("name") // of one source among several, for people
	c.source.Repository = a.repository(fields)
	switch chart := fields.Text("chart"); {
	case chart != "":
		c.isChart, c.source.Ref = true, versionRef(revision)
		if !isRegistry(fields) {
			c.source.Chart = chart
		}
	case isRegistry(fields):
		c.path, c.source.Ref = migration.Folder(fields.Text("path")), versionRef(revision)
	default:
		c.path, c.source.Ref = migration.Folder(fields.Text("path")), gitRef(fields, revision)
	}
	c.source.Path = c.path
	return c
}

// place gives each source a folder of the tree: a single one needs none.
func (a *app) place(contents []*content) {
	for i, c := range contents {
		switch {
		case len(contents) > 1:
			c.source.Mount = fmt.Sprintf("source-%d", i+1)
		case c.isChart:
			c.source.Mount = chartMount
		}
		c.folder = c.source.GetMount()
	}
}

// tools are the sections of a source that say how objects are made. At most one is set.
var tools = []string{"helm", "kustomize", "directory"}

// step returns the step that makes the objects of a source.
func (a *app) step(c *content, named map[string]*values) *typev1.RenderStep {
	tool := ""
	for _, name := range tools {
		if part := c.fields.Part(name); tool == "" && !part.IsEmpty() {
			tool = name
		}
	}
	switch {
	case c.isChart, tool == "helm":
		step := &typev1.RenderStep{Renderer: &typev1.RenderStep_Helm{Helm: a.helm(c, named)}}
		step.Path = c.stepPath()
		return step
	case tool == "directory":
		a.directory(c, c.fields.Part("directory"))
	case c.path == "":
		kustomize(c.fields.Part("kustomize"))
	default:
		kustomize(c.fields.Part("kustomize"))
		c.widen()
		c.fields.Note("path", migration.Check, "the whole repository is bundled, as Argo CD has it; narrow root, so that other commits change nothing")
		if tool == "" {
			c.fields.Note("path", migration.Check, "of a folder that has neither Chart.yaml nor a kustomization, Argo CD reads only its own files, and Leat also those below: exclude what is not meant")
		}
	}
	step := migration.AsIs()[0]
	if tool == "directory" {
		step.Renderer = &typev1.RenderStep_Plain{Plain: &typev1.PlainStep{}}
	}
	step.Path = c.stepPath()
	if !a.isNamed && tool == "" {
		c.fields.Note("", migration.Check, "if the folder is a chart, its release was named "+a.name+": add render[].helm.releaseName")
	}
	return step
}

// stepPath returns the folder of a step: empty where it is the one of the first source.
func (c *content) stepPath() string {
	if c.source.GetMount() == "" {
		return ""
	}
	return c.folder
}

// kustomize notes the options of kustomize that a source has besides its folder.
func kustomize(fields *migration.Fields) {
	const advice = "write it into a kustomization in the repository"
	fields.Without(migration.Missing, advice, "namePrefix", "nameSuffix", "images", "replicas", "commonLabels", "commonAnnotations", "namespace",
		"patches", "components", "commonAnnotationsEnvsubst", "labelWithoutSelector", "labelIncludeTemplates", "forceCommonLabels",
		"forceCommonAnnotations", "ignoreMissingComponents")
	fields.Without(migration.Needless, "agents have one version of kustomize, and know their cluster", "version", "kubeVersion", "apiVersions")
}

// directory reads which files of a folder are manifests.
func (a *app) directory(c *content, fields *migration.Fields) {
	recurse, _ := fields.Bool("recurse")
	include, isSimple := patterns(c.path, fields.Text("include"))
	exclude, isSimpleToo := patterns(c.path, fields.Text("exclude"))
	if !isSimple {
		fields.Note("include", migration.Missing, "write the pattern as several in sources[].include, in the syntax of .gitignore")
	}
	if !isSimpleToo {
		fields.Note("exclude", migration.Missing, "write the pattern as several in sources[].exclude, in the syntax of .gitignore")
	}
	if len(include) == 0 && !recurse {
		for _, ending := range []string{"yaml", "yml", "json"} {
			include = append(include, below(c.path)+"*."+ending)
		}
	}
	c.source.Include, c.source.Exclude = include, exclude
	jsonnet := fields.Part("jsonnet")
	jsonnet.Without(migration.Missing, "add a step of the renderer jsonnet, with arguments and library paths", "extVars", "tlas", "libs")
}
