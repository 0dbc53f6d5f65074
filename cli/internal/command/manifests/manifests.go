// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifests holds the commands that render manifests on this machine: local ones, without a
// hub and without a cluster, and the manifests of a service as its hub delivers them.
package manifests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/kubeapi"
	"github.com/leatdev/leat/cli/internal/localrender"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/renderworker"
)

// inputText describes the input in help texts.
const inputText = `DIR is a folder of manifests, of a kustomization or of a Helm chart. It is read as it would be delivered after a push:
without what .leatignore excludes and Git ignores, with symbolic links that stay inside, and within the limits of bundles.
Like every source it is only that folder; --root adds a folder around it, such as a kustomization's ../base needs.

-f takes a document of a service instead, as leat apply does, and --source the folder that stands for each repository of
its sources; it may be checked out at any commit, because refs are not looked at. Where the files hold several services,
service/NAME chooses one. The document of its cluster, if there is one, gives the labels that charts can read.

service/NAME without -f, or service/PROJECT/NAME@CLUSTER, is a service of the hub, also one that is derived, with the
content that the hub delivers to its cluster now, and the facts that the hub knows of that cluster. It needs the role
operator. The hub does not show secrets: without --secret KEY=VALUE each is rendered as SECRET_KEY.

Otherwise nothing asks a hub or a cluster, and nothing is fetched. The function lookup returns nothing.`

// bind adds the flags.
func (in *input) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVarP(&in.files, "filename", "f", nil, "file or directory with the document of a service, or - for the standard input")
	flags.StringArrayVar(&in.sources, "source", nil, "with -f: REPOSITORY=DIR, the folder that stands for a repository")
	flags.StringVar(&in.root, "root", "", "a folder around DIR that is read, too")
	flags.StringVarP(&in.namespace, "namespace", "n", "", "namespace that charts see (default \"default\")")
	flags.StringVar(&in.releaseName, "release-name", "", "name of the release that charts see (default \"release-name\")")
	flags.StringArrayVar(&in.values, "values", nil, "file of values for a chart, wherever it lies; later ones win")
	flags.StringArrayVar(&in.set, "set", nil, "PATH=VALUE: one value for a chart, over all files; the value is always text")
	flags.StringArrayVar(&in.config, "config", nil, "KEY=VALUE: a variable of the configuration, for ${KEY}")
	flags.StringArrayVar(&in.secrets, "secret", nil, "KEY=VALUE: a secret of the configuration; KEY=- reads it from the standard input")
	flags.StringVar(&in.version, "kube-version", "", "version of Kubernetes (default "+kubeapi.Newest.String()+", the newest that leat knows)")
	flags.StringVar(&in.facts, "facts", "", "YAML file with facts of the cluster: name, labels, annotations, kubernetesVersion, apiVersions")
	flags.StringSliceVar(&in.apiVersions, "api-versions", nil, "further APIs of the cluster that charts see, such as monitoring.coreos.com/v1/ServiceMonitor")
	flags.BoolVar(&in.installed, "installed", false, "render as for a service that was applied before: an upgrade, for charts")
	cmd.Args = cobra.MaximumNArgs(1)
}

// kubeVersion returns the version of Kubernetes.
func (in *input) kubeVersion() (kubeapi.Version, error) {
	if in.version == "" {
		return kubeapi.Newest, nil
	}
	version, err := kubeapi.ParseVersion(in.version)
	if err != nil {
		return version, failure.Usage("--kube-version: %v", err)
	}
	return version, nil
}

// service returns what the arguments describe.
func (in *input) service(ctx context.Context, args []string) (s localrender.Service, err error) {
	name, isHubs := "", false
	if len(in.files) == 0 && len(args) > 0 {
		if name, isHubs, err = serviceName(args[0]); err != nil {
			return s, err
		}
	}
	if isHubs {
		s, err = in.fromHub(ctx, in.session.Reference("Service", name))
	} else {
		s, err = in.fromFiles(args)
	}
	if err != nil {
		return s, err
	}
	return s, in.addFacts(&s.Facts.Cluster)
}

// fromFiles returns what the arguments describe that lies on this machine.
func (in *input) fromFiles(args []string) (localrender.Service, error) {
	settings, err := in.settings()
	if err != nil {
		return localrender.Service{}, err
	}
	if len(in.files) > 0 {
		return in.fromDocument(args, settings)
	}
	if len(args) == 0 {
		return localrender.Service{}, failure.Usage("nothing to read: give DIR, or -f FILE with --source REPOSITORY=DIR, or service/NAME")
	}
	if len(in.sources) > 0 {
		return localrender.Service{}, failure.Usage("--source needs -f")
	}
	set, err := pairs("--set", in.set)
	if err != nil {
		return localrender.Service{}, err
	}
	s, err := localrender.FromFolder(localrender.Folder{
		Path: args[0], Root: in.root, Namespace: in.namespace, ReleaseName: in.releaseName, ValuesFiles: in.values, Parameters: set,
	}, settings)
	if notAChart, ok := errors.AsType[*localrender.NotAChartError](err); ok {
		return s, failure.Usage("%v", notAChart)
	}
	if field, ok := errors.AsType[*fielderr.Error](err); ok {
		return s, failure.Usage("%s %s", flagOf(field.Path), field.Message)
	}
	return s, err
}

// flagOf returns the flag that a field of a step was made of.
func flagOf(field string) string {
	for part, flag := range map[string]string{"release_name": "--release-name", "parameters": "--set", "values_files": "--values"} {
		if strings.Contains(field, part) {
			return flag
		}
	}
	return field
}

// fromDocument returns the service of a document.
func (in *input) fromDocument(args []string, settings localrender.Settings) (localrender.Service, error) {
	if in.root != "" || in.namespace != "" || in.releaseName != "" || len(in.values)+len(in.set) > 0 {
		return localrender.Service{}, failure.Usage("--root, --namespace, --release-name, --values and --set are for DIR; with -f the document says it")
	}
	folders, err := pairs("--source", in.sources)
	if err != nil {
		return localrender.Service{}, err
	}
	documents, err := document.Load(in.files, in.session.In)
	if err != nil {
		return localrender.Service{}, err
	}
	wanted, err := chosen(documents, args)
	if err != nil {
		return localrender.Service{}, err
	}
	used := map[string]bool{}
	for _, source := range wanted.Object.GetService().GetSpec().GetSources() {
		used[source.GetRepository()] = true
	}
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		if !used[name] {
			return localrender.Service{}, failure.Usage("--source %s: %s names no such repository%s", name, wanted.ID(),
				document.Suggest(name, slices.Sorted(maps.Keys(used))))
		}
	}
	return localrender.FromDocument(wanted, documents, folders, settings)
}

// isNamed reports whether an argument names a document: by its reference, as leat get shows it, or for a
// service without its cluster.
func isNamed(d *document.Document, argument string) bool {
	withoutCluster, _, _ := strings.Cut(d.ID(), "@")
	return argument == d.ID() || argument == withoutCluster || argument == d.Name
}

// chosen returns the document of the service that the arguments name, or of the only one.
func chosen(documents []*document.Document, args []string) (*document.Document, error) {
	var services []*document.Document
	var ids []string
	for _, d := range documents {
		if d.Kind == "Service" && (len(args) == 0 || isNamed(d, args[0])) {
			services, ids = append(services, d), append(ids, d.ID())
		}
	}
	switch {
	case len(services) == 1:
		return services[0], nil
	case len(services) > 1:
		return nil, failure.Usage("the files hold several services; name one of %s", strings.Join(ids, ", "))
	case len(args) > 0:
		return nil, failure.Usage("the files hold no %s", args[0])
	case slices.ContainsFunc(documents, func(d *document.Document) bool { return d.Kind == "GlobalService" }):
		return nil, failure.Usage("the files hold a global service, whose services the hub derives: apply it with spec.paused, " +
			"and name one of them as service/NAME@CLUSTER, without -f")
	default:
		return nil, failure.Usage("the files hold no service")
	}
}

// maxSecret bounds a secret, as the hub does.
const maxSecret = 64 << 10

// readSecret reads the secret from the standard input, without the line's end.
func (in *input) readSecret(secrets map[string]string) error {
	readers := 0
	if slices.Contains(in.files, "-") {
		readers++
	}
	for _, key := range slices.Sorted(maps.Keys(secrets)) {
		if secrets[key] != "-" {
			continue
		}
		if readers++; readers > 1 {
			return failure.Usage("only one of -f - and --secret KEY=- can read the standard input")
		}
		text, err := io.ReadAll(io.LimitReader(in.session.In, maxSecret+1))
		if err != nil {
			return fmt.Errorf("read secret %s: %w", key, err)
		}
		if len(text) > maxSecret {
			return failure.New(fmt.Sprintf("secret %s has more than 64 KiB", key), "")
		}
		secrets[key] = strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	}
	return nil
}

// pairs returns KEY=VALUE texts as a map. Messages never show a value.
func pairs(flag string, texts []string) (map[string]string, error) {
	all := map[string]string{}
	for _, text := range texts {
		key, value, found := strings.Cut(text, "=")
		if !found || key == "" {
			return nil, failure.Usage("%s: want NAME=VALUE", flag)
		}
		if _, twice := all[key]; twice {
			return nil, failure.Usage("%s: %s is given twice", flag, key)
		}
		all[key] = value
	}
	return all, nil
}

// render renders the input. It writes warnings to the standard error.
func (in *input) render(ctx context.Context, args []string) (localrender.Result, error) {
	service, err := in.service(ctx, args)
	if err != nil {
		return localrender.Result{}, failed(err)
	}
	if _, err := io.WriteString(in.session.Err, noticeOf(service.Placeholders)); err != nil {
		return localrender.Result{}, err
	}
	limits := render.LimitsWithin(renderworker.Container())
	workers := renderworker.NewPool(renderworker.Config{}, limits)
	defer workers.Close()
	result, err := service.Render(ctx, render.Split{Limits: limits, Others: workers}, limits)
	if err != nil {
		return result, failed(err)
	}
	warnings := result.Warnings
	if runtime.GOOS != "linux" {
		warnings = append(warnings, "on "+runtime.GOOS+" only the time of a render is bounded; agents also bound its memory, its files and its network")
	}
	if result.HasGenerated {
		warnings = append(warnings, "templates generate values at random; a cluster keeps those of its first render, and every render here makes others")
	}
	for _, warning := range warnings {
		if _, err := fmt.Fprintln(in.session.Err, "Warning: "+line(warning)); err != nil {
			return result, err
		}
	}
	return result, nil
}

// failed returns the failure of an error about content.
func failed(err error) error {
	if problem := reason.ProblemOf(err); problem.Reason != reason.Internal && problem.Reason != reason.DeadlineExceeded {
		f := failure.New(line(problem.Message), "")
		f.Reason = problem.Reason.String()
		return f
	}
	if folders, ok := errors.AsType[*localrender.FoldersError](err); ok {
		return failure.Usage("%v", folders)
	}
	return failure.From(err, "")
}
