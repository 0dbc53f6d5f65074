// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package charts renders the Helm charts of deploy/helm with Helm's own engine, and makes the files
// that follow from them: the plain manifests of deploy/kubernetes, the tables of values in the
// charts' READMEs, and the charts' copies of files that are elsewhere in the tree.
//
// It needs no helm program. Its renders see no cluster.
package charts

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// helmFolder has the charts.
const helmFolder = "deploy/helm"

// Hub and Agent name the charts.
const (
	Hub   = "leat"
	Agent = "leat-agent"
)

// Release holds the facts of a render besides values.
type Release struct {
	Name, Namespace string
}

// Load reads a chart of the checkout whose root is top.
func Load(top, name string) (*chart.Chart, error) {
	loaded, err := loader.LoadDir(filepath.Join(top, helmFolder, name))
	if err != nil {
		return nil, fmt.Errorf("load chart %s: %w", name, err)
	}
	return loaded, nil
}

// Render returns the text of each template that is not empty, by its path below templates/, as helm
// template prints it. It fails if the values do not follow the chart's schema.
func Render(c *chart.Chart, release Release, values map[string]any) (map[string]string, error) {
	capabilities := common.DefaultCapabilities.Copy()
	options := common.ReleaseOptions{Name: release.Name, Namespace: release.Namespace, IsInstall: true, Revision: 1}
	top, err := commonutil.ToRenderValuesWithSchemaValidation(c, values, options, capabilities, false)
	if err != nil {
		return nil, fmt.Errorf("merge values: %w", err)
	}
	rendered, err := engine.Engine{}.Render(c, top)
	if err != nil {
		return nil, fmt.Errorf("render chart %s: %w", c.Name(), err)
	}
	texts := map[string]string{}
	for name, text := range rendered {
		name = strings.TrimPrefix(name, c.Name()+"/templates/")
		if text = tidy(text); text != "" && !strings.HasPrefix(path.Base(name), "_") {
			texts[name] = text
		}
	}
	return texts, nil
}

// tidy removes separators and empty lines at both ends.
func tidy(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n "), "\n")
	for len(lines) > 0 && (strings.TrimSpace(lines[0]) == "" || lines[0] == "---") {
		lines = lines[1:]
	}
	for len(lines) > 0 && lines[len(lines)-1] == "---" {
		lines = lines[:len(lines)-1]
	}
	return strings.Join(lines, "\n")
}

// Documents returns the documents of texts that Render returned, in the order of the texts' names.
// Documents that hold comments alone are left out.
func Documents(texts map[string]string) []string {
	names := make([]string, 0, len(texts))
	for name := range texts {
		if name != "NOTES.txt" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var documents []string
	for _, name := range names {
		for document := range strings.SplitSeq(texts[name], "\n---\n") {
			var content map[string]any
			if err := yaml.Unmarshal([]byte(document), &content); err != nil || len(content) > 0 {
				documents = append(documents, document) // a reader reports the malformed part
			}
		}
	}
	return documents
}

// manifest is a file of deploy/kubernetes. Its values are in the file of the same name in the folder
// values there, whose first comment becomes the manifest's.
type manifest struct {
	file      string
	chart     string
	release   Release
	templates []string // in the order of the file; none of them may be empty
}

// manifests are all of them.
func manifests() []manifest {
	agent := Release{Name: Agent, Namespace: "leat-system"}
	return []manifest{
		{file: "hub.yaml", chart: Hub, release: Release{Name: "leat", Namespace: "leat"}, templates: []string{
			"namespace.yaml", "redis.yaml", "gitcache.yaml", "distributor.yaml", "tunnel.yaml", "networkpolicies.yaml",
		}},
		{file: "agent.yaml", chart: Agent, release: agent, templates: []string{
			"namespace.yaml", "state.yaml", "people.yaml", "services.yaml", "groups.yaml", "agent.yaml", "networkpolicy.yaml",
		}},
		{file: "agent-tenants.yaml", chart: Agent, release: agent, templates: []string{"watch.yaml", "people.yaml", "tenants.yaml"}},
	}
}

// copies returns the files of the tree that charts hold too, because a chart cannot name a file
// outside of it: each source with its copy.
func copies(top string) (map[string]string, error) {
	files := map[string]string{}
	for pattern, folder := range map[string]string{
		"deploy/redis/*":           "deploy/helm/leat/files/redis",
		"deploy/dashboards/*.json": "deploy/helm/leat/files/dashboards",
		"deploy/prometheus/*.yaml": "deploy/helm/leat/files/prometheus",
	} {
		found, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range found {
			files[path.Join(path.Dir(pattern), filepath.Base(file))] = path.Join(folder, filepath.Base(file))
		}
	}
	return files, nil
}

// Files returns the content of every file that follows from the charts, by its path in the checkout
// whose root is top.
func Files(top string) (map[string]string, error) {
	files := map[string]string{}
	sources, err := copies(top)
	if err != nil {
		return nil, err
	}
	for source, target := range sources {
		content, err := os.ReadFile(filepath.Join(top, source))
		if err != nil {
			return nil, err
		}
		files[target] = string(content)
	}
	for _, name := range []string{Hub, Agent} {
		page := path.Join(helmFolder, name, "README.md")
		text, err := readme(filepath.Join(top, helmFolder, name, "values.yaml"), filepath.Join(top, page))
		if err != nil {
			return nil, err
		}
		files[page] = text
	}
	for _, m := range manifests() {
		text, err := m.render(top)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.file, err)
		}
		files["deploy/kubernetes/"+m.file] = text
		if m.file == "agent.yaml" {
			files["cli/internal/agentmanifest/agent.yaml"] = text // leat cluster create prints it
		}
	}
	return files, nil
}

func (m manifest) render(top string) (string, error) {
	source := filepath.Join(top, "deploy", "kubernetes", "values", m.file)
	content, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(content, &values); err != nil {
		return "", fmt.Errorf("read %s: %w", source, err)
	}
	c, err := Load(top, m.chart)
	if err != nil {
		return "", err
	}
	texts, err := Render(c, m.release, values)
	if err != nil {
		return "", err
	}
	text := new(strings.Builder)
	for line := range strings.Lines(string(content)) {
		if !strings.HasPrefix(line, "#") {
			break
		}
		text.WriteString(line)
	}
	fmt.Fprintf(text, "#\n# Generated by make manifests from deploy/helm/%s and values/%s. Edit those, not this file.\n", m.chart, m.file)
	for i, name := range m.templates {
		if texts[name] == "" {
			return "", fmt.Errorf("template %s makes nothing", name)
		}
		if i > 0 {
			text.WriteString("---\n")
		}
		text.WriteString(texts[name] + "\n")
	}
	return text.String(), nil
}
