// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package argocd

import (
	"fmt"
	"path"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"
	"helm.sh/helm/v4/pkg/strvals"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/cli/internal/migration"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// helm reads the options of a chart.
func (a *app) helm(c *content, named map[string]*values) *typev1.HelmStep {
	fields := c.fields.Part("helm")
	step := &typev1.HelmStep{ReleaseName: fields.Text("releaseName")}
	if step.GetReleaseName() == "" && !a.isNamed {
		step.ReleaseName = a.name
	}
	if a.isNamed && step.GetReleaseName() == a.name {
		step.ReleaseName = ""
	}
	step.SkipSchema, _ = fields.Bool("skipSchemaValidation")
	step.SkipTests, _ = fields.Bool("skipTests")
	if skip, _ := fields.Bool("skipCrds"); skip {
		step.Crds = typev1.CrdPolicy_CRD_POLICY_SKIP
	}
	a.valuesFiles(c, named, step)
	if given := a.values(fields); len(given) > 0 {
		var err error
		if step.Values, err = structpb.NewStruct(given); err != nil {
			fields.Note("values", migration.Missing, "the values have a type that JSON does not have")
		}
	}
	fields.Without(migration.Missing, "write the content of the files into render[].helm.values", "fileParameters")
	if namespace := fields.Text("namespace"); namespace != "" && namespace != a.spec.GetNamespace() {
		fields.Note("namespace", migration.Missing, "the release is rendered for the service's namespace, "+a.spec.GetNamespace())
	}
	fields.Without(migration.Needless, "agents have one version of Helm, and know their cluster", "version", "kubeVersion", "apiVersions")
	fields.Without(migration.Check, "dependencies are taken from repositories that chartRepositories of the chart's repository names", "passCredentials")
	return step
}

// values returns the values that override files: valuesObject or values, and over them the parameters.
func (a *app) values(fields *migration.Fields) map[string]any {
	merged := map[string]any{}
	if text := fields.Text("values"); text != "" && !fields.Has("valuesObject") {
		if err := yaml.Unmarshal([]byte(text), &merged); err != nil {
			fields.Note("values", migration.Missing, "the text is not YAML of values")
			merged = map[string]any{}
		}
	}
	if given := fields.Map("valuesObject"); given != nil {
		merged = runtime.DeepCopyJSON(given) // the parameters change it
	}
	for i, parameter := range fields.Parts("parameters") {
		name, value := parameter.Text("name"), parameter.Text("value")
		isText, _ := parameter.Bool("forceString")
		value, isKnown := a.environment(value)
		if !isKnown {
			fields.Note(fmt.Sprintf("parameters[%d]", i), migration.Missing, "write it into render[].helm.values: it uses a variable of Argo CD's build environment")
			continue
		}
		into := strvals.ParseInto
		if isText {
			into = strvals.ParseIntoString
		}
		if !a.fleet.affords(name) {
			fields.Note(fmt.Sprintf("parameters[%d]", i), migration.Missing, "write it into render[].helm.values: its path has a large index")
			continue
		}
		// As Argo CD gives them to helm --set, where a comma would begin another one.
		if err := into(name+"="+strings.ReplaceAll(value, ",", `\,`), merged); err != nil || name == "" {
			fields.Note(fmt.Sprintf("parameters[%d]", i), migration.Missing, "write it into render[].helm.values: it is not a path and a value")
		}
	}
	return merged
}

// environment replaces the variables of Argo CD's build environment that are known before a sync. isKnown is false if
// there is another one.
func (a *app) environment(text string) (replaced string, isKnown bool) {
	if len(a.name) > maxName || len(a.spec.GetNamespace()) > maxName || len(a.fields.Text("project")) > maxName || a.fleet.templated > maxTemplated {
		return "", false
	}
	known := map[string]string{"ARGOCD_APP_NAME": a.name, "ARGOCD_APP_NAMESPACE": a.spec.GetNamespace(), "ARGOCD_APP_PROJECT_NAME": a.fields.Text("project")}
	for name, value := range known {
		text = strings.ReplaceAll(text, "${"+name+"}", value)
	}
	for _, name := range []string{"ARGOCD_APP_NAMESPACE", "ARGOCD_APP_PROJECT_NAME", "ARGOCD_APP_NAME"} { // a longer name first
		text = strings.ReplaceAll(text, "$"+name, known[name])
	}
	a.fleet.templated += len(text)
	return text, !strings.Contains(text, "$ARGOCD_") && !strings.Contains(text, "${ARGOCD_") && !strings.Contains(text, "$KUBE_")
}

// valuesFiles places the files of values in the tree, and has the sources bundle them.
func (a *app) valuesFiles(c *content, named map[string]*values, step *typev1.HelmStep) {
	fields := c.fields.Part("helm")
	mayMiss, _ := fields.Bool("ignoreMissingValueFiles")
	var outside []string // paths in the chart's own repository, outside of its folder
	for i, file := range fields.Texts("valueFiles") {
		field := fmt.Sprintf("valueFiles[%d]", i)
		file, isKnown := a.environment(file)
		where := ""
		switch ref, rest, _ := strings.Cut(strings.TrimPrefix(file, "$"), "/"); {
		case !isKnown, strings.Contains(file, "://"), strings.ContainsAny(file, "*?[{"):
			fields.Note(field, migration.Missing, "copy the file into the repository of a source, and name it in render[].helm.valuesFiles")
			continue
		case strings.HasPrefix(file, "$"):
			v := named[ref]
			if v == nil {
				fields.Note(field, migration.Missing, "no source has this ref")
				continue
			}
			v.isUsed = true
			rest = path.Clean(rest)
			v.source.Include = append(v.source.GetInclude(), "/"+escapePattern(rest))
			where = path.Join(v.source.GetMount(), rest)
		case c.isChart:
			where = path.Join(c.folder, file)
		case strings.HasPrefix(file, "/"):
			where = path.Clean(strings.TrimPrefix(file, "/"))
			outside = append(outside, where)
		default:
			where = path.Join(c.path, file)
			outside = append(outside, where)
		}
		if mayMiss {
			where += "?"
		}
		step.ValuesFiles = append(step.ValuesFiles, where)
	}
	a.reach(c, step, outside, mayMiss)
}

// reach makes the files of values of a chart in Git part of its bundle: only the chart's folder is one without them.
func (a *app) reach(c *content, step *typev1.HelmStep, files []string, mayMiss bool) {
	isInside := true
	for _, file := range files {
		isInside = isInside && (c.path == "" || strings.HasPrefix(file, c.path+"/"))
	}
	if !isInside {
		include := []string{below(c.path)}
		for _, file := range files {
			include = append(include, "/"+escapePattern(file))
		}
		c.widen(include...)
	}
	own := map[string]bool{}
	for _, file := range files {
		own[file] = true
	}
	for i, file := range step.GetValuesFiles() {
		bare := strings.TrimSuffix(file, "?")
		if !own[bare] || mayMiss != strings.HasSuffix(file, "?") {
			continue
		}
		if isInside {
			file = strings.TrimPrefix(strings.TrimPrefix(file, c.path), "/")
		}
		step.ValuesFiles[i] = path.Join(c.source.GetMount(), file)
	}
}
