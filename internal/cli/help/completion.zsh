#compdef delayer
# zsh completion for delayer: source <(delayer completion zsh)
_delayer() {
	local line
	local -a found
	while IFS= read -r line; do
		[[ -n $line ]] && found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
	done < <("$words[1]" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
	if (( $#found )); then
		_describe delayer found
	else
		_files
	fi
}
if [[ $funcstack[1] == _delayer ]]; then
	_delayer
else
	compdef _delayer delayer
fi
