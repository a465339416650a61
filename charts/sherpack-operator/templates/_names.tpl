{{- define "sherpack-operator.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "sherpack-operator.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "sherpack-operator.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "sherpack-operator.selector" -}}
app.kubernetes.io/name: sherpack-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sherpack-operator.labels" -}}
{{ include "sherpack-operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}

{{- /*
The tenancy in force: what is asked for, else that of the Deployment that is there. Nothing is chosen in silence, because
`single` makes the operator cluster admin.
*/ -}}
{{- define "sherpack-operator.tenancy" -}}
{{- $tenancy := .Values.tenancy -}}
{{- if not $tenancy -}}
{{- with lookup "apps/v1" "Deployment" .Release.Namespace (include "sherpack-operator.fullname" .) -}}
{{- $tenancy = "single" -}}
{{- range (first .spec.template.spec.containers).args -}}
{{- if hasPrefix "--tenancy=" . -}}
{{- $tenancy = trimPrefix "--tenancy=" . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not (has $tenancy (list "single" "multi")) -}}
{{- fail (printf "tenancy is %q: choose --set tenancy=single (a release without a service account acts as the operator, which is cluster admin by default, and so is each person who may create a SherpackRelease) or --set tenancy=multi (each release acts as a service account of its own namespace; list these namespaces in `tenants`)" (toString $tenancy)) -}}
{{- end -}}
{{- $tenancy -}}
{{- end -}}
